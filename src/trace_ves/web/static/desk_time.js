// Moments as every page of the desk writes them: m:ss.mmm. The player has its own copy, since an export has only the player.

export function clock(moment) {
  const ms = Math.round(moment * 1000);
  const pad = (value, width) => String(value).padStart(width, "0");
  const minutes = Math.floor(ms / 60_000);
  const hours = Math.floor(minutes / 60);
  const start = hours ? `${hours}:${pad(minutes % 60, 2)}` : String(minutes);
  return `${start}:${pad(Math.floor(ms / 1000) % 60, 2)}.${pad(ms % 1000, 3)}`;
}
