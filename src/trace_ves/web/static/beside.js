// Choosing a second run shows it at once.
document.querySelector("#beside-form select")?.addEventListener("change", (event) => event.target.form.submit());
