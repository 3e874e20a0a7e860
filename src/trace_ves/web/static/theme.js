// Sets the chosen colours before the first paint, so that nothing flashes.
try {
  const chosen = localStorage.getItem("trace-ves-theme");
  if (chosen) document.documentElement.dataset.theme = chosen;
} catch {
  // a browser without storage follows the system
}
