// What every page of the desk has: buttons and forms that write.

import { post, enable } from "./desk_post.js";

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-post]");
  if (button) post(button.dataset.post, JSON.parse(button.dataset.body ?? "{}"));
});

for (const form of document.querySelectorAll("[data-form]")) {
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    post(form.dataset.form, Object.fromEntries(new FormData(form)));
  });
}

for (const form of document.querySelectorAll(".verdict, .choices")) {
  form.addEventListener("submit", (event) => event.preventDefault());
}

enable("[data-post], [data-form] button");
