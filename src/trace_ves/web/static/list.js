// Lists: filters apply while one types, and j and k walk through the rows.

import { reload } from "./follow.js";

const form = document.querySelector(".filters");
let waiting;

function address() {
  const wanted = new URLSearchParams();
  for (const [name, value] of new FormData(form)) if (value) wanted.set(name, value);
  return `${form.getAttribute("action")}?${wanted}`;
}

function apply() {
  clearTimeout(waiting);
  waiting = setTimeout(async () => {
    history.replaceState(null, "", address());
    await reload();
  }, 120);
}

form?.addEventListener("input", apply);
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  apply();
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target.closest?.("input, select") || document.querySelector("dialog[open]")) return;
  const step = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
  if (!step) return;
  const rows = [...document.querySelectorAll("a[data-row]")];
  const at = rows.indexOf(document.activeElement);
  const next = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
  if (next) {
    event.preventDefault();
    next.focus();
  }
});

document.querySelector("#main").dataset.extraKeys = JSON.stringify([
  ["j", "Next row"],
  ["k", "Previous row"],
  ["Enter", "Open the row"],
]);
