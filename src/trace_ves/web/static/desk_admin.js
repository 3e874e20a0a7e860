// The operator's page: an invitation's token is shown once, on this page, and stored nowhere.

import { enable, notify, send } from "./desk_post.js";

const form = document.querySelector("#invite");
const shown = document.querySelector("#invited");

async function invite(person) {
  const said = await send("/api/invite", person);
  if (!said?.token) {
    notify(said?.detail ?? "The invitation was refused. Use a free name of letters, digits, dots and dashes.");
    return;
  }
  shown.textContent = `${said.name} signs in with the token ${said.token} – it is shown this once.`;
  shown.hidden = false;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  invite(Object.fromEntries(new FormData(form)));
});

document.addEventListener("click", (event) => {
  const pressed = event.target.closest("[data-invite]");
  if (pressed) invite(JSON.parse(pressed.dataset.invite));
});

enable("[data-invite], #invite button");
