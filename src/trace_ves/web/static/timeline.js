// The timelines: a click goes to the moment, the playhead follows the video, and all of them zoom together.

const lines = [...document.querySelectorAll(".timeline")];
const MOST = 256;
let zoom = 1;
let moment = 0;

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 36000, 86400];
const LABEL_PX = 64;
const SVG = "http://www.w3.org/2000/svg";

function clock(seconds, decimals) {
  const ticks = Math.round(seconds * 10 ** decimals);
  const whole = Math.floor(ticks / 10 ** decimals);
  const pad = (value) => String(value).padStart(2, "0");
  const tail = decimals ? `.${ticks % 10}` : "";
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return `${hours ? `${hours}:${pad(minutes)}` : minutes}:${pad(whole % 60)}${tail}`;
}

function element(name, attributes) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

// A number that is wider than its box goes beside it, and where there is no room either, it waits for the zoom.
function fitCounts(line) {
  const intervals = [...line.querySelectorAll(".interval")];
  const boxes = intervals.map((each) => each.querySelector(".gold").getBoundingClientRect());
  intervals.forEach((interval, at) => {
    const count = interval.querySelector(".count");
    const needed = 9 * count.textContent.length;
    const narrow = boxes[at].width < needed;
    const room = boxes.every((other, index) => index === at || other.left < boxes[at].left || other.left > boxes[at].right + needed);
    interval.classList.toggle("beside", narrow);
    interval.classList.toggle("crowded", narrow && !room);
    count.setAttribute("x", narrow ? count.dataset.end : count.dataset.middle);
    count.setAttribute("dx", narrow ? 3 : 0);
  });
}

// The axis of what is in view: as many round moments as there is room for, however far it is zoomed.
function drawAxis(line) {
  const duration = Number(line.dataset.duration);
  const marks = line.querySelector(".marks");
  const track = line.querySelector(".track");
  if (!track.clientWidth) return;
  const perPixel = duration / track.scrollWidth;
  const step = STEPS.find((each) => each >= LABEL_PX * perPixel) ?? 86400 * Math.ceil((LABEL_PX * perPixel) / 86400);
  const first = Math.max(0, Math.floor((track.scrollLeft * perPixel) / step));
  const last = Math.min(Math.floor(duration / step), Math.ceil(((track.scrollLeft + track.clientWidth) * perPixel) / step));
  const key = `${step} ${first} ${last}`;
  if (marks.dataset.drawn === key) return;
  fitCounts(line);
  marks.dataset.drawn = key;
  const made = [];
  for (let at = first; at <= last; at++) {
    const x = `${(100 * at * step) / duration}%`;
    const edge = at === 0 ? " first" : at * step > duration - (LABEL_PX / 2) * perPixel ? " last" : "";
    const label = element("text", { x, y: 11, class: `axis${edge}` });
    label.textContent = clock(at * step, step < 1 ? 1 : 0);
    made.push(element("line", { class: "grid", x1: x, x2: x, y1: 16, y2: marks.dataset.height }), label);
  }
  marks.replaceChildren(...made);
}

function reveal() {
  for (const line of lines) {
    const track = line.querySelector(".track");
    const x = (track.scrollWidth * moment) / Number(line.dataset.duration);
    if (x < track.scrollLeft + 20 || x > track.scrollLeft + track.clientWidth - 20) {
      track.scrollLeft = x - track.clientWidth / 2;
    }
  }
}

function setZoom(next) {
  zoom = Math.min(Math.max(next, 1), MOST);
  for (const line of lines) {
    line.querySelector(".zoomed").style.width = `${100 * zoom}%`;
    const track = line.querySelector(".track");
    track.scrollLeft = (track.scrollWidth * moment) / Number(line.dataset.duration) - track.clientWidth / 2;
    drawAxis(line);
  }
}

const actions = {
  "zoom-in": () => setZoom(zoom * 2),
  "zoom-out": () => setZoom(zoom / 2),
  "zoom-all": () => setZoom(1),
};

document.addEventListener("click", (event) => {
  actions[event.target.closest("[data-do]")?.dataset.do]?.();
});

document.addEventListener("moment", (event) => {
  moment = event.detail;
  for (const line of lines) {
    const head = line.querySelector(".playhead");
    const place = `${(100 * moment) / Number(line.dataset.duration)}%`;
    head.setAttribute("x1", place);
    head.setAttribute("x2", place);
  }
  if (zoom > 1) reveal();
});

for (const line of lines) {
  const track = line.querySelector(".track");
  const duration = Number(line.dataset.duration);
  track.addEventListener("click", (event) => {
    const marked = event.target.closest("[data-start]");
    const box = line.querySelector(".lanes").getBoundingClientRect();
    const clicked = (duration * (event.clientX - box.left)) / box.width;
    const detail = marked?.classList.contains("span") ? Number(marked.dataset.start) : clicked;
    document.dispatchEvent(new CustomEvent("seek", { detail: Math.min(Math.max(detail, 0), duration) }));
  });
  new ResizeObserver(() => drawAxis(line)).observe(track);
  track.addEventListener("scroll", () => {
    drawAxis(line);
    for (const other of lines) {
      const scrolled = other.querySelector(".track");
      if (scrolled.scrollLeft !== track.scrollLeft) scrolled.scrollLeft = track.scrollLeft;
    }
  });
}
