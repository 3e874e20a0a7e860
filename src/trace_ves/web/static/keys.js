// Keyboard first: an element says in data-key which key presses it, and the help lists all of them.

const NAMES = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", Space: "space" };
const help = document.querySelector("#help");

function keyOf(event) {
  return event.key === " " ? "Space" : event.key;
}

function isTyping(target) {
  return target.closest?.("input, textarea, select") !== null;
}

function press(element) {
  if (element.matches("input, select")) {
    element.focus();
    element.select?.();
  } else {
    element.click();
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  if (event.key === "Escape" && isTyping(event.target)) {
    event.target.blur();
    return;
  }
  if (isTyping(event.target) || document.querySelector("dialog[open]")) return;
  const key = keyOf(event);
  const pressable = event.target.closest?.("button, a, summary") !== null;
  if (pressable && (key === "Space" || key === "Enter")) return;
  const element = [...document.querySelectorAll("[data-key]")].find((each) => each.dataset.key === key);
  if (element) {
    event.preventDefault();
    press(element);
  }
});

function listKeys() {
  const rows = [...document.querySelectorAll("[data-key]")].map((each) => [each.dataset.key, each.title]);
  for (const extra of document.querySelectorAll("[data-extra-keys]")) rows.push(...JSON.parse(extra.dataset.extraKeys));
  const list = help.querySelector("dl");
  list.replaceChildren(
    ...rows.flatMap(([key, title]) => {
      const term = document.createElement("dt");
      const cap = document.createElement("kbd");
      cap.textContent = NAMES[key] ?? key;
      term.append(cap);
      const words = document.createElement("dd");
      words.textContent = title;
      return [term, words];
    }),
  );
}

document.querySelector("#show-help").addEventListener("click", () => {
  listKeys();
  help.showModal();
  help.scrollTop = 0; // the focus is on the button at its end
});

document.querySelector("#theme").addEventListener("click", () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  try {
    localStorage.setItem("trace-ves-theme", root.dataset.theme);
  } catch {
    // then it lasts for this page
  }
});
