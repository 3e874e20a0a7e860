// The video, one exact frame at a time. The server gives the true timestamp of every frame; a seek aims at the middle
// of a frame, and what the browser then shows is checked against what was asked for. Where the browser cannot play the
// file or shows another frame, the frame comes from the server as a picture.

const root = document.querySelector("#player");
const data = JSON.parse(document.querySelector("#data").textContent);
const stored = JSON.parse(document.querySelector("#frames")?.textContent ?? "null");
const video = root.querySelector("video");
const still = root.querySelector("img.still");
const output = document.querySelector("#moment");

let times = null; // seconds of every frame, the first at 0
let offset = 0; // the browser's time of the first frame
let calibrated = !video || !("requestVideoFrameCallback" in video);
let unmoved = true; // only the first frame can have been on screen
let current = 0; // the requested frame
let shown = -1; // the frame that the browser shows
let seconds = 0;
let doubt; // the timer after which the server's own frame is shown instead of the browser's
const SEEK_MS = 1500; // a seek that takes longer than this
const SETTLE_MS = 250; // a frame may be on screen a little later than its seek is over

function frameAt(moment) {
  let low = 0;
  let high = times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] <= moment) low = middle + 1;
    else high = middle;
  }
  return Math.max(0, low - 1);
}

function middleOf(index) {
  const next = index + 1 < times.length ? times[index + 1] : Math.max(data.duration, times[index] + 0.001);
  return times[index] + (next - times[index]) / 2;
}

function clock(moment) {
  const whole = Math.floor(moment);
  const pad = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const start = hours ? `${hours}:${pad(Math.floor(whole / 60) % 60)}` : `${Math.floor(whole / 60)}`;
  return `${start}:${pad(whole % 60)}.${String(Math.floor((moment - whole) * 1000 + 1e-6)).padStart(3, "0")}`;
}

function tellMoment() {
  seconds = times ? times[current] : seconds;
  output.querySelector(".time").textContent = clock(seconds);
  const place = stored ? `${current + 1} of ${times.length} frames` : `frame ${current}`;
  output.querySelector(".number").textContent = times ? place : "";
  const at = data.supplied.indexOf(seconds);
  output.querySelector(".seen-by").textContent =
    at < 0 ? "" : data.stages[at].length ? `supplied to ${data.stages[at].join(", ")}` : "supplied";
  document.querySelector("#here")?.setAttribute("href", `#t=${Number(seconds.toFixed(3))}`);
  document.dispatchEvent(new CustomEvent("moment", { detail: seconds }));
}

function isStill() {
  return root.dataset.mode === "stills";
}

function showStill() {
  if (!still || video?.hasAttribute("src") === false) return; // without it, this page has let go of the video
  const url = stored ? stored[data.supplied.indexOf(seconds)] : `${root.dataset.frame}&t=${times ? times[current] : seconds}`;
  const index = current;
  root.dataset.shown = "";
  still.onload = () => (root.dataset.shown = String(index));
  if (url) still.src = url;
  still.hidden = false;
}

function useStills() {
  root.dataset.mode = "stills";
  if (video) video.hidden = true;
  showStill();
}

function show(index) {
  current = Math.min(Math.max(index, 0), times.length - 1);
  tellMoment();
  if (isStill()) {
    showStill();
    return;
  }
  clearTimeout(doubt);
  video.pause();
  still.hidden = true;
  root.dataset.shown = "";
  doubt = setTimeout(showStill, SEEK_MS);
  if (!calibrated) return; // the first frame is awaited, and then the wanted one is sought
  video.currentTime = offset + middleOf(current);
}

function seek(moment) {
  if (times) show(frameAt(moment));
  else {
    seconds = moment;
    tellMoment();
    if (isStill()) showStill();
    else if (video && calibrated) video.currentTime = offset + moment;
  }
}

function settle() {
  if (!times || isStill() || video.seeking || !video.paused) return;
  clearTimeout(doubt);
  if (shown === current) {
    still.hidden = true;
    root.dataset.shown = String(shown);
  } else if (shown >= 0) {
    doubt = setTimeout(showStill, SETTLE_MS); // the browser shows a neighbour; the server's own frame covers it
  }
}

// The video's first frame says where the file's clock starts.
function calibrate(start) {
  offset = start;
  calibrated = true;
  if (seconds > 0) seek(seconds);
}

// A frame that was on screen before this script ran is not reported; a seek to where it is shows it again.
function showFirstAgain() {
  if (!calibrated && unmoved) video.currentTime = 0;
}

function onFrame(_, facts) {
  if (!calibrated && unmoved) calibrate(facts.mediaTime);
  if (times) {
    shown = frameAt(facts.mediaTime - offset + 0.0005);
    if (!video.paused) {
      current = shown;
      tellMoment();
    }
    settle();
  }
  video.requestVideoFrameCallback(onFrame);
}

async function loadTimes() {
  const response = await fetch(root.dataset.times);
  if (!response.ok) return;
  times = new Float64Array(await response.arrayBuffer());
  root.dataset.frames = String(times.length);
  if (!followLink()) {
    if (seconds > 0) seek(seconds); // sought before the times arrived
    else tellMoment();
  }
  root.dataset.ready = "true";
}

// An address that ends with #t=SECONDS opens the question at that moment.
function followLink() {
  const wanted = new URLSearchParams(location.hash.slice(1)).get("t");
  if (wanted === null || !Number.isFinite(Number(wanted))) return false;
  seek(Number(wanted));
  return true;
}
addEventListener("hashchange", followLink);

function stepTo(list, direction) {
  const next = direction > 0 ? list.find((each) => each > seconds + 1e-9) : list.findLast((each) => each < seconds - 1e-9);
  if (next !== undefined) seek(next);
}

// Where each evidence interval begins: at its first frame, which may come a little later than its start.
function evidenceStarts() {
  return data.evidence.map(([start]) => {
    if (!times || !times.length) return start;
    const index = frameAt(start);
    return times[index] < start && index + 1 < times.length ? times[index + 1] : times[index];
  });
}

const actions = {
  before: () => (times && !stored ? show(current - 1) : stepTo(data.supplied, -1)),
  after: () => (times && !stored ? show(current + 1) : stepTo(data.supplied, 1)),
  play: () => {
    if (isStill() || !video) return;
    if (video.paused) {
      still.hidden = true;
      video.play().catch(() => {}); // a pause may come before the first frame
    } else {
      video.pause();
      if (times) show(current);
    }
  },
  "seen-before": () => stepTo(data.supplied, -1),
  "seen-after": () => stepTo(data.supplied, 1),
  "evidence-before": () => stepTo(evidenceStarts(), -1),
  "evidence-after": () => stepTo(evidenceStarts(), 1),
};

document.addEventListener("click", (event) => {
  const pressed = event.target.closest("[data-do], [data-seek]");
  if (!pressed) return;
  if (pressed.dataset.seek !== undefined) seek(Number(pressed.dataset.seek));
  else actions[pressed.dataset.do]?.();
});

document.addEventListener("seek", (event) => seek(event.detail));

if (stored) {
  times = Float64Array.from(data.supplied);
  data.duration = Math.max(data.duration, times.at(-1) ?? 0);
  root.dataset.mode = "stills";
  if (times.length && !followLink()) show(0);
  root.dataset.ready = "true";
} else if (data.hasVideo) {
  video.addEventListener("error", useStills);
  video.addEventListener("seeked", settle);
  if (video.error) useStills();
  if (!calibrated) {
    video.addEventListener("play", () => (unmoved = false));
    video.requestVideoFrameCallback(onFrame);
    if (video.readyState >= HTMLMediaElement.HAVE_CURRENT_DATA) showFirstAgain();
    else video.addEventListener("loadeddata", () => setTimeout(showFirstAgain, SETTLE_MS), { once: true });
  }
  loadTimes();
} else tellMoment();
