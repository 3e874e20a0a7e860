// Answering from the clips of a partial set: a key plays a clip, a letter answers.

import { post, secondsHere, enable } from "./desk_post.js";

const data = JSON.parse(document.querySelector("#data").textContent);
const form = document.querySelector("[data-answer]");
const films = [...document.querySelectorAll("#clips video")];

function playOne(place) {
  films.forEach((film, other) => other !== place && film.pause());
  if (films[place].paused) films[place].play();
  else films[place].pause();
}

document.addEventListener("click", (event) => {
  const pressed = event.target.closest("[data-clip], [data-choose]");
  if (!pressed) return;
  if (pressed.dataset.clip !== undefined) playOne(Number(pressed.dataset.clip));
  else post(form.dataset.answer, { ...data, answer: pressed.dataset.choose || null, seconds: secondsHere() });
});

enable("[data-choose]");
