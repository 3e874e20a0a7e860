// Follows a running benchmark: when the run files have grown, the page is fetched again and its live part replaced.

const EVERY_MS = 2000;
const note = document.querySelector("#following");

export async function reload(url = location.href) {
  const response = await fetch(url, { headers: { Accept: "text/html" } });
  if (!response.ok) return;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const live = document.querySelector("#live");
  const next = fresh.querySelector("#live");
  if (!live || !next) return;
  const focused = document.activeElement?.getAttribute("href");
  const row = document.activeElement?.closest("a[data-row]")?.textContent; // its address holds the filters, which change
  const opened = [...live.querySelectorAll("details")].map((each) => each.open);
  live.replaceWith(next);
  document.dispatchEvent(new CustomEvent("replaced", { detail: next }));
  next.querySelectorAll("details").forEach((each, at) => (each.open = opened[at] ?? each.open));
  const same = focused && next.querySelector(`[href="${CSS.escape(focused)}"]`);
  const again = same || (row && [...next.querySelectorAll("a[data-row]")].find((each) => each.textContent === row));
  if (again) again.focus();
  for (const select of document.querySelectorAll(".filters select")) {
    const value = select.value;
    select.replaceChildren(...fresh.querySelector(`#${select.id}`).children);
    select.value = value;
  }
}

async function look() {
  if (document.visibilityState !== "visible") return;
  try {
    const { version } = await (await fetch("/state")).json();
    note.textContent = "";
    if (String(version) !== document.querySelector("#live").dataset.version) await reload();
  } catch {
    note.textContent = "The server does not answer.";
  }
}

setInterval(look, EVERY_MS);
