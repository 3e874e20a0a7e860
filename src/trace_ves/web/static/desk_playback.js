// Playing at any speed: J and L go back and on, faster with every press, K stops; the speed is shown and kept.

const root = document.querySelector("#player");
const video = root.querySelector("video");
const shown = document.querySelector("#speed");
const SPEEDS = [0.25, 0.5, 1, 1.5, 2, 4];
const FASTER = { 1: 2, 2: 4, 4: 4 };
const STEP_MS = 100;
const speedKey = "trace-ves-speed";

let speed = recall();
let shuttle = 0; // how fast it goes back; 0 where it does not
let timer;
let moment = 0;

function recall() {
  try {
    const kept = Number(localStorage.getItem(speedKey));
    return SPEEDS.includes(kept) ? kept : 1;
  } catch {
    return 1;
  }
}

function setSpeed(next) {
  speed = next;
  video.playbackRate = speed;
  video.defaultPlaybackRate = speed;
  show();
  try {
    localStorage.setItem(speedKey, String(speed));
  } catch {
    // then it lasts as long as the page
  }
}

function show() {
  shown.textContent = shuttle ? `−${shuttle}×` : `${speed}×`;
}

function isPlaying() {
  return !video.paused;
}

function playButton() {
  root.querySelector("[data-do=play]").click();
}

function stop() {
  shuttle = 0;
  clearInterval(timer);
  if (isPlaying()) playButton();
  show();
}

function on() {
  if (shuttle) stop();
  if (isPlaying()) setSpeed(FASTER[speed] ?? 2);
  else {
    if (speed > 1) setSpeed(1);
    playButton();
  }
}

// Browsers cannot play backwards: one frame after the other is sought instead.
function back() {
  const next = shuttle ? FASTER[shuttle] : 1;
  stop();
  shuttle = next;
  show();
  timer = setInterval(() => {
    const to = moment - (shuttle * STEP_MS) / 1000;
    document.dispatchEvent(new CustomEvent("seek", { detail: Math.max(0, to) }));
    if (to <= 0) stop();
  }, STEP_MS);
}

const actions = {
  back,
  stop,
  on,
  slower: () => setSpeed(SPEEDS.findLast((each) => each < speed) ?? SPEEDS[0]),
  faster: () => setSpeed(SPEEDS.find((each) => each > speed) ?? SPEEDS.at(-1)),
};

document.addEventListener("click", (event) => actions[event.target.closest("[data-playback]")?.dataset.playback]?.());
document.addEventListener("moment", (event) => {
  moment = event.detail;
});
video.addEventListener("loadedmetadata", () => (video.playbackRate = speed));
setSpeed(speed);
