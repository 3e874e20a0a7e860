// The timeline of an item: a strip of pictures, the intervals as bars with edges to drag, what was played, marks, and
// a playhead. Click and drag seek; Shift and drag make a new interval. It talks to the rest of the page only by events.

import { clock } from "./desk_time.js";

const data = JSON.parse(document.querySelector("#data").textContent);
const player = document.querySelector("#player");
const root = document.querySelector("#desk-timeline");
const track = root.querySelector(".track");
const zoomed = root.querySelector(".zoomed");
const strip = root.querySelector(".strip");
const lanes = root.querySelector(".lanes");
const ruler = root.querySelector(".ruler");
const head = root.querySelector(".playhead");
const hover = root.querySelector(".hover");
const grid = document.querySelector("#filmstrip");
const markKey = `trace-ves-marks:${data.item}`;

const MOST_ZOOM = 128;
const CELL_WIDTH = 96;
const CELL_HEIGHT = 54;
const MOST_CELLS = 60; // pictures in one file of the server
const GRID_SECONDS = 4;
const HOVER_MS = 90;
const SCRUB_MS = 70;

let zoom = 1;
let moment = 0;
let bars = { spans: data.spans, chosen: 0, watched: data.watched };
let marks = recallMarks();
let timer;

function percent(seconds) {
  return `${(100 * Math.min(Math.max(seconds, 0), data.duration)) / data.duration}%`;
}

function momentAt(event) {
  const box = zoomed.getBoundingClientRect();
  return Math.min(Math.max((data.duration * (event.clientX - box.left)) / box.width, 0), data.duration);
}

function tell(name, detail) {
  document.dispatchEvent(new CustomEvent(name, { detail }));
}

function element(kind, className, { left, width, title } = {}) {
  const made = document.createElement(kind);
  made.className = className;
  if (left !== undefined) made.style.left = left;
  if (width !== undefined) made.style.width = width;
  if (title) made.title = title;
  return made;
}

function span([start, end], className, title) {
  return element("div", className, { left: percent(start), width: `${(100 * (end - start)) / data.duration}%`, title });
}

// --- pictures

function sprite(from, to, count) {
  const query = new URLSearchParams({ id: data.item, start: from.toFixed(3), end: to.toFixed(3), count, height: CELL_HEIGHT });
  return `/strip?${query}`;
}

let asking = new AbortController();
document.addEventListener("release-video", () => asking.abort());

// The part of the strip that can be seen, as one picture from the server.
async function showStrip() {
  const width = track.clientWidth;
  if (!width || !document.querySelector("#player video").hasAttribute("src")) return; // this page has let go of the video
  showRuler();
  const from = (data.duration * track.scrollLeft) / zoomed.offsetWidth;
  const to = Math.min(data.duration, from + (data.duration * width) / zoomed.offsetWidth);
  const count = Math.min(MOST_CELLS, Math.max(4, Math.round(width / CELL_WIDTH)));
  strip.style.left = percent(from);
  strip.style.width = `${(100 * (to - from)) / data.duration}%`;
  asking.abort();
  asking = new AbortController();
  try {
    const response = await fetch(sprite(from, to, count), { signal: asking.signal });
    const reader = new FileReader();
    reader.addEventListener("load", () => (strip.style.backgroundImage = `url("${reader.result}")`));
    if (response.ok) reader.readAsDataURL(await response.blob());
  } catch {
    // another part is shown now, or the video was let go
  }
}

function laterStrip() {
  clearTimeout(timer);
  timer = setTimeout(showStrip, 200);
}

function showGrid() {
  grid.hidden = !grid.hidden;
  document.querySelector("[data-timeline=grid]").setAttribute("aria-pressed", String(!grid.hidden));
  if (grid.hidden || grid.children.length) return;
  const total = Math.max(1, Math.ceil(data.duration / GRID_SECONDS));
  for (let first = 0; first < total; first += MOST_CELLS) {
    const count = Math.min(MOST_CELLS, total - first);
    const picture = sprite(first * GRID_SECONDS, Math.min(data.duration, (first + count) * GRID_SECONDS), count);
    for (let place = 0; place < count; place += 1) {
      const at = (first + place) * GRID_SECONDS;
      const cell = element("button", "cell", { title: `Go to ${clock(at)}` });
      cell.type = "button";
      cell.dataset.seek = at;
      cell.dataset.at = at;
      const image = element("span", "picture");
      image.style.backgroundImage = `url("${picture}")`;
      image.style.backgroundSize = `${100 * count}% 100%`;
      image.style.backgroundPosition = count > 1 ? `${(100 * place) / (count - 1)}% 0` : "0 0";
      const label = document.createElement("small");
      label.textContent = clock(at).slice(0, -4);
      cell.append(image, label);
      grid.append(cell);
    }
  }
  showGridState();
}

function showGridState() {
  for (const cell of grid.children) {
    const at = Number(cell.dataset.at);
    const inside = (start, end) => start < at + GRID_SECONDS && end > at;
    cell.classList.toggle("inside", bars.spans.some(([start, end]) => inside(start, end)));
    cell.classList.toggle("now", inside(moment, moment + 0.001));
    cell.classList.toggle("marked", marks.some((mark) => inside(mark, mark + 0.001)));
  }
}

// --- lanes

function showLanes() {
  const own = element("div", "lane own");
  bars.spans.forEach((each, place) => {
    const bar = span(each, `piece${place === bars.chosen ? " chosen" : ""}`, `interval ${place + 1}: ${clock(each[0])}–${clock(each[1])}`);
    bar.dataset.place = place;
    bar.append(document.createTextNode(place + 1));
    if (!data.fixed) {
      for (const edge of [0, 1]) {
        const handle = element("i", edge ? "edge end" : "edge start", { title: `Drag the ${edge ? "end" : "start"} of interval ${place + 1}` });
        handle.dataset.edge = edge;
        bar.append(handle);
      }
    }
    own.append(bar);
  });
  const others = (data.sides ?? []).map((side, place) => {
    const lane = element("div", `lane side side${place}`);
    lane.append(...side.spans.map((each, number) => span(each, "piece", `${side.name}, interval ${number + 1}: ${clock(each[0])}–${clock(each[1])}`)));
    const name = element("b", "lane-name");
    name.textContent = side.name;
    lane.append(name);
    return lane;
  });
  const played = element("div", "lane played-lane", { title: "What you have played" });
  played.append(...bars.watched.map((each) => span(each, "piece")));
  const marked = element("div", "lane marks");
  marked.append(
    ...marks.map((at) => {
      const mark = element("button", "mark", { left: percent(at), title: `Mark at ${clock(at)}` });
      mark.type = "button";
      mark.dataset.seek = at;
      mark.setAttribute("aria-label", `Mark at ${clock(at)}`);
      return mark;
    }),
  );
  lanes.replaceChildren(own, ...others, played, marked);
  root.querySelector("#mark-count").textContent = marks.length === 1 ? "1 mark" : `${marks.length} marks`;
  showGridState();
}

// --- ruler: a tick at every round moment, about 90 pixels apart

const STEPS = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200];

function showRuler() {
  const step = STEPS.find((each) => (zoomed.offsetWidth * each) / data.duration >= 90) ?? STEPS.at(-1);
  const from = Math.floor((data.duration * track.scrollLeft) / zoomed.offsetWidth / step);
  const to = Math.ceil((data.duration * (track.scrollLeft + track.clientWidth)) / zoomed.offsetWidth / step);
  const ticks = [];
  for (let place = Math.max(0, from); place <= to && place * step < data.duration; place += 1) {
    const tick = element("small", "tick", { left: percent(place * step) });
    tick.textContent = clock(place * step).slice(0, step < 1 ? -2 : -4);
    ticks.push(tick);
  }
  ruler.replaceChildren(...ticks);
}

// --- zoom

function setZoom(next, around = moment) {
  zoom = Math.min(Math.max(next, 1), MOST_ZOOM);
  zoomed.style.width = `${100 * zoom}%`;
  track.scrollLeft = (zoomed.offsetWidth * around) / data.duration - track.clientWidth / 2;
  laterStrip();
}

function reveal() {
  const x = (zoomed.offsetWidth * moment) / data.duration;
  if (x < track.scrollLeft + 20 || x > track.scrollLeft + track.clientWidth - 20) track.scrollLeft = x - track.clientWidth / 2;
}

// --- marks

function recallMarks() {
  try {
    return JSON.parse(localStorage.getItem(markKey)) ?? [];
  } catch {
    return [];
  }
}

function setMarks(next) {
  marks = next.sort((a, b) => a - b);
  try {
    localStorage.setItem(markKey, JSON.stringify(marks));
  } catch {
    // then they last as long as the page
  }
  showLanes();
}

function unmark() {
  const nearest = marks.toSorted((a, b) => Math.abs(a - moment) - Math.abs(b - moment))[0];
  setMarks(marks.filter((each) => each !== nearest));
}

function toMark(direction) {
  const next = direction > 0 ? marks.find((each) => each > moment + 1e-3) : marks.findLast((each) => each < moment - 1e-3);
  if (next !== undefined) tell("seek", next);
}

const actions = {
  "zoom-in": () => setZoom(zoom * 2),
  "zoom-out": () => setZoom(zoom / 2),
  "zoom-all": () => setZoom(1),
  mark: () => marks.includes(moment) || setMarks([...marks, moment]),
  unmark,
  "mark-before": () => toMark(-1),
  "mark-after": () => toMark(1),
  grid: showGrid,
};

root.addEventListener("click", (event) => actions[event.target.closest("[data-timeline]")?.dataset.timeline]?.());

// --- pointer: edges, scrubbing, new intervals

let scrubbed = 0;

function scrub(seconds) {
  const now = performance.now();
  if (now - scrubbed < SCRUB_MS) return;
  scrubbed = now;
  tell("seek", seconds);
}

function follow(event, onMove, onEnd) {
  track.setPointerCapture(event.pointerId);
  const move = (each) => onMove(momentAt(each));
  const end = (each) => {
    track.removeEventListener("pointermove", move);
    track.removeEventListener("pointerup", end);
    track.removeEventListener("pointercancel", end);
    onEnd(momentAt(each));
  };
  track.addEventListener("pointermove", move);
  track.addEventListener("pointerup", end);
  track.addEventListener("pointercancel", end);
}

function dragEdge(event, bar, edge) {
  const place = Number(bar.dataset.place);
  const between = [...bars.spans[place]];
  const onMove = (seconds) => {
    between[edge] = seconds;
    const [start, end] = [Math.min(...between), Math.max(...between)];
    bar.style.left = percent(start);
    bar.style.width = `${(100 * (end - start)) / data.duration}%`;
    scrub(seconds);
  };
  follow(event, onMove, (seconds) => {
    tell("drag-edge", { place, edge, seconds });
    showLanes();
  });
}

track.addEventListener("pointerdown", (event) => {
  if (event.button !== 0 || event.target.closest(".mark")) return;
  const bar = event.target.closest(".own .piece");
  const edge = event.target.closest("[data-edge]");
  const began = momentAt(event);
  if (bar) tell("choose-interval", Number(bar.dataset.place));
  if (bar && edge) {
    const fresh = lanes.querySelector(`.own .piece[data-place="${bar.dataset.place}"]`); // choosing drew the bars again
    dragEdge(event, fresh, Number(edge.dataset.edge));
  } else if (event.shiftKey && !data.fixed) {
    const drawn = span([began, began], "piece new");
    lanes.querySelector(".own").append(drawn);
    follow(
      event,
      (seconds) => {
        drawn.style.left = percent(Math.min(began, seconds));
        drawn.style.width = `${(100 * Math.abs(seconds - began)) / data.duration}%`;
      },
      (seconds) => {
        drawn.remove();
        if (Math.abs(seconds - began) > 0.1) tell("new-interval", [Math.min(began, seconds), Math.max(began, seconds)]);
      },
    );
  } else if (!bar) {
    tell("seek", began);
    follow(event, scrub, (seconds) => tell("seek", seconds));
  }
  event.preventDefault();
  track.focus({ preventScroll: true });
});

let hovering;
track.addEventListener("pointermove", (event) => {
  const seconds = momentAt(event);
  const box = track.getBoundingClientRect();
  hover.hidden = false;
  hover.style.left = `${Math.min(Math.max(event.clientX - box.left - 80, 0), box.width - 160)}px`;
  hover.querySelector("output").textContent = clock(seconds);
  clearTimeout(hovering);
  hovering = setTimeout(() => {
    hover.querySelector("img").src = `${player.dataset.frame}&t=${seconds.toFixed(3)}&height=90`;
  }, HOVER_MS);
});
track.addEventListener("pointerleave", () => {
  clearTimeout(hovering);
  hover.hidden = true;
});
track.addEventListener("scroll", laterStrip);
addEventListener("resize", laterStrip);

document.addEventListener("intervals", (event) => {
  bars = event.detail;
  showLanes();
});
document.addEventListener("moment", (event) => {
  moment = event.detail;
  head.style.left = percent(moment);
  if (zoom > 1) reveal();
  if (!grid.hidden) showGridState();
});

showLanes();
showStrip();
root.dataset.ready = "true";
