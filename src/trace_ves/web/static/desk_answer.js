// Answering from the clips of a partial set: n and b play the next and the previous clip, a digit answers.

import { enable, notify, post, retract } from "./desk_post.js";
import { ENOUGH, Watch, shareOf } from "./desk_watch.js";

const { watched, clips, ...data } = JSON.parse(document.querySelector("#data").textContent);
const form = document.querySelector("[data-answer]");
const films = [...document.querySelectorAll("#clips video")];
let shares = [];
let unplayed = -1; // the clip that a notice asks for
const watches = films.map(watch);

function watch(film, place) {
  const { part } = clips[place];
  const made = new Watch({ item: data.item, part, length: () => film.duration, onPlayed: showPlayed });
  let last = 0;
  film.addEventListener("timeupdate", () => {
    if (film.currentTime < last) {
      made.upTo(film.duration); // the loop began again, at its start: Firefox tells of it a moment later
      made.at(0, !film.paused);
      if (shares[place] < ENOUGH) made.report(); // a clip that was played is ticked at once
    }
    last = film.currentTime;
    made.at(film.currentTime, !film.paused);
  });
  film.addEventListener("play", () => made.at(film.currentTime, true));
  film.addEventListener("pause", () => made.at(film.currentTime, false));
  return made;
}

function showPlayed(spans) {
  shares = clips.map(({ span }) => shareOf(span, spans));
  shares.forEach((share, place) => {
    const badge = films[place].closest("figure").querySelector(".played");
    badge.textContent = share >= ENOUGH ? "✓ played" : share > 0 ? `played ${Math.floor(100 * share)} %` : "not played yet";
    badge.classList.toggle("done", share >= ENOUGH);
  });
  const left = shares.filter((share) => share < ENOUGH).length;
  if (unplayed >= 0 && shares[unplayed] >= ENOUGH) retract();
  document.querySelector("#to-play").textContent = left ? `Play every clip to its end first: ${left} to go.` : "";
}

let chosen = -1; // the clip that was played last

function playOne(which) {
  const step = { before: -1, again: 0, after: 1 }[which];
  const place = step === undefined ? Number(which) : Math.min(Math.max(chosen + step, 0), films.length - 1);
  chosen = place;
  films[place].scrollIntoView({ block: "nearest" });
  films.forEach((film, other) => other !== place && film.pause());
  if (films[place].paused) films[place].play().catch(() => {}); // a pause may come before the first frame
  else films[place].pause();
}

async function answer(letter) {
  await Promise.all(watches.map((each) => each.report()));
  const missing = shares.findIndex((share) => share < ENOUGH);
  unplayed = missing;
  if (missing >= 0) {
    notify(`Play every clip to its end first; clip ${missing + 1} is not played yet.`);
    return;
  }
  post(form.dataset.answer, { ...data, answer: letter || null });
}

function skip() {
  const reason = document.querySelector("[data-skip] [name=reason]");
  if (reason.value.trim()) post("/api/skip", { item: data.item, reason: reason.value.trim() });
  else {
    notify("Enter a reason for skipping it.");
    reason.focus();
  }
}

document.addEventListener("click", (event) => {
  const pressed = event.target.closest("[data-clip], [data-choose], [data-give-back]");
  if (!pressed) return;
  if (pressed.dataset.giveBack !== undefined) skip();
  else if (pressed.dataset.clip !== undefined) playOne(pressed.dataset.clip);
  else answer(pressed.dataset.choose);
});

showPlayed(watched);
enable("[data-choose], [data-give-back]");
