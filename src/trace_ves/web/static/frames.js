// The frames of every call: small ones when a call is opened, a few at a time, and each of them at full size.

const AT_ONCE = 60;
const data = JSON.parse(document.querySelector("#data").textContent);
const stored = JSON.parse(document.querySelector("#frames")?.textContent ?? "null");
const base = document.querySelector("#player").dataset.frame;
const full = document.querySelector("#full");
let open = { times: [], at: 0, stage: "", heights: [] };

function source(moment, height) {
  if (stored) return stored[data.supplied.indexOf(moment)] ?? null;
  return base ? `${base}&t=${moment}${height ? `&height=${height}` : ""}` : null;
}

function inEvidence(moment) {
  return data.evidence.some(([start, end]) => start <= moment && moment <= end);
}

function picture(call, moment, at) {
  const item = document.createElement("li");
  const button = document.createElement("button");
  button.type = "button";
  button.dataset.at = at;
  button.title = `${moment.toFixed(3)} s`;
  const url = source(moment, 96);
  if (url) {
    const image = document.createElement("img");
    image.loading = "lazy";
    image.width = 160;
    image.height = 90;
    image.alt = "";
    image.src = url;
    image.addEventListener("error", () => item.classList.add("no-frame"));
    button.append(image);
  }
  const label = document.createElement("span");
  label.textContent = `${moment.toFixed(2)} s`;
  if (inEvidence(moment)) item.classList.add("in-evidence");
  button.append(label);
  item.append(button);
  return item;
}

function fill(call) {
  const list = call.querySelector(".frames");
  const times = JSON.parse(call.dataset.times);
  const from = list.querySelectorAll("li:not(.more)").length;
  list.querySelector(".more")?.remove();
  list.append(...times.slice(from, from + AT_ONCE).map((moment, index) => picture(call, moment, from + index)));
  const left = times.length - from - AT_ONCE;
  if (left > 0) {
    const more = document.createElement("li");
    more.className = "more";
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${left} more`;
    button.addEventListener("click", () => fill(call));
    more.append(button);
    list.append(more);
  }
}

function showFull(at) {
  open.at = Math.min(Math.max(at, 0), open.times.length - 1);
  const moment = open.times[open.at];
  const height = open.heights[open.at];
  const image = full.querySelector("img");
  const url = source(moment, null);
  delete full.dataset.loaded;
  image.onload = () => (full.dataset.loaded = "true");
  if (url) image.src = url;
  const supplied = height ? `, supplied at ${height} px` : "";
  full.querySelector(".caption").textContent =
    `${moment.toFixed(3)} s · frame ${open.at + 1} of ${open.times.length} of ${open.stage}${supplied}` +
    (inEvidence(moment) ? " · inside the evidence" : "");
  if (!full.open) full.showModal();
}

for (const call of document.querySelectorAll("details.call")) {
  call.addEventListener("toggle", () => {
    if (call.open && call.dataset.times && !call.querySelector(".frames li")) fill(call);
  });
  call.addEventListener("click", (event) => {
    const button = event.target.closest(".frames button[data-at]");
    if (!button) return;
    open = {
      times: JSON.parse(call.dataset.times),
      heights: JSON.parse(call.dataset.heights ?? "[]"),
      stage: call.dataset.stage,
      at: 0,
    };
    showFull(Number(button.dataset.at));
  });
}

full.addEventListener("click", (event) => {
  const what = event.target.closest("[data-do]")?.dataset.do;
  if (what === "full-before") showFull(open.at - 1);
  if (what === "full-after") showFull(open.at + 1);
  if (what === "full-seek") {
    full.close();
    document.dispatchEvent(new CustomEvent("seek", { detail: open.times[open.at] }));
    document.querySelector("#player").scrollIntoView({ block: "nearest" });
  }
});

full.addEventListener("keydown", (event) => {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (step) {
    event.preventDefault();
    showFull(open.at + step);
  }
});
