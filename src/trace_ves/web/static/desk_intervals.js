// The intervals of an item: choose one, play it in a loop, move its edges by a frame or a second, and say the verdict.

import { post, secondsHere, notify, enable } from "./desk_post.js";

const data = JSON.parse(document.querySelector("#data").textContent);
const root = document.querySelector("#player");
const video = root.querySelector("video");
const list = document.querySelector("#intervals");
const cards = [...list.querySelectorAll(".interval")];
const form = document.querySelector("[data-verdict]");
const proposed = data.evidence;

let spans = cards.map((card) => [Number(card.dataset.start), Number(card.dataset.end)]);
let chosen = 0;
let looping = false;
let stills; // the timer of a loop of pictures, where the browser cannot play the file
let moment = 0;
let times = [];

const STILL_MS = 150;
const SETTLE_MS = 40;

function seek(seconds) {
  document.dispatchEvent(new CustomEvent("seek", { detail: Math.min(Math.max(seconds, 0), data.duration) }));
}

function show() {
  cards.forEach((card, place) => {
    const [start, end] = spans[place];
    card.classList.toggle("chosen", place === chosen);
    card.dataset.start = start;
    card.dataset.end = end;
    card.querySelector(".start").textContent = `${start.toFixed(3)} s`;
    card.querySelector(".end").textContent = `${end.toFixed(3)} s`;
    const moved = start !== proposed[place][0] || end !== proposed[place][1];
    card.querySelector(".moved").textContent = moved ? `moved from ${proposed[place][0]}–${proposed[place][1]} s` : "";
  });
}

function stop() {
  looping = false;
  list.dataset.looping = "";
  clearInterval(stills);
  if (!video.paused) root.querySelector("[data-do=play]").click();
}

function choose(place) {
  stop();
  chosen = Math.min(Math.max(place, 0), spans.length - 1);
  show();
  seek(spans[chosen][0]);
}

// The player shows the exact frame first; the film goes on from there.
function play() {
  seek(spans[chosen][0]);
  const settled = setInterval(() => {
    if (looping && !root.dataset.shown) return;
    clearInterval(settled);
    if (looping && video.paused) root.querySelector("[data-do=play]").click();
  }, SETTLE_MS);
}

function loop() {
  if (looping) {
    stop();
    return;
  }
  looping = true;
  list.dataset.looping = String(chosen);
  if (root.dataset.mode !== "stills") {
    play();
    return;
  }
  seek(spans[chosen][0]);
  stills = setInterval(() => {
    const next = moment + STILL_MS / 1000;
    seek(next > spans[chosen][1] ? spans[chosen][0] : next);
  }, STILL_MS);
}

document.addEventListener("moment", (event) => {
  moment = event.detail;
  if (looping && root.dataset.mode !== "stills" && !video.paused && moment >= spans[chosen][1]) play();
});
video.addEventListener("ended", () => looping && play());

function frameStep(seconds, by) {
  let at = times.findLastIndex((each) => each <= seconds + 1e-6);
  if (by > 0 || times[at] >= seconds - 1e-6) at += by; // an edge between two frames goes to the one before it first
  return times[Math.min(Math.max(at, 0), times.length - 1)];
}

const moves = {
  "-1s": (edge) => edge - 1,
  "+1s": (edge) => edge + 1,
  "-1f": (edge) => frameStep(edge, -1),
  "+1f": (edge) => frameStep(edge, 1),
  here: () => moment,
};

function nudge(which, how) {
  stop();
  const edge = which === "start" ? 0 : 1;
  const moved = Math.min(Math.max(moves[how](spans[chosen][edge]), 0), data.duration);
  const next = [...spans[chosen]];
  next[edge] = Math.round(moved * 1000) / 1000;
  if (next[0] >= next[1]) {
    notify("An interval must end after its start.");
    return;
  }
  spans[chosen] = next;
  show();
  seek(next[edge]);
}

function say(verdict) {
  const reason = form.elements.reason.value.trim();
  if (verdict === "reject" && !reason) {
    notify("Say why you reject it.");
    form.elements.reason.focus();
    return;
  }
  const accepted = verdict === "accept";
  const body = { item: data.item, evidence: accepted && !data.fixed ? spans : [], seconds: secondsHere() };
  const more = data.about
    ? { about: data.about, keep: accepted, reason }
    : { revision: data.revision, reason: accepted ? "" : reason };
  post(form.dataset.verdict, { ...body, ...more });
}

const ways = { loop, before: () => choose(chosen - 1), after: () => choose(chosen + 1) };

document.addEventListener("click", (event) => {
  const pressed = event.target.closest("[data-interval], [data-nudge], [data-say], [data-take], .interval");
  if (!pressed) return;
  if (pressed.dataset.interval) ways[pressed.dataset.interval]();
  else if (pressed.dataset.nudge) nudge(...pressed.dataset.nudge.split(":"));
  else if (pressed.dataset.say) say(pressed.dataset.say);
  else if (pressed.dataset.take) {
    spans = JSON.parse(pressed.dataset.take);
    choose(0);
  } else choose(cards.indexOf(pressed));
});

show();
const response = await fetch(root.dataset.times);
if (response.ok) times = [...new Float64Array(await response.arrayBuffer())];
list.dataset.ready = "true";
enable("[data-say]");
if (!location.hash) seek(spans[0][0]);
