// The timelines: a click goes to the moment, the playhead follows the video, and all of them zoom together.

const lines = [...document.querySelectorAll(".timeline")];
const MOST = 256;
let zoom = 1;
let moment = 0;

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
  track.addEventListener("scroll", () => {
    for (const other of lines) {
      const scrolled = other.querySelector(".track");
      if (scrolled.scrollLeft !== track.scrollLeft) scrolled.scrollLeft = track.scrollLeft;
    }
  });
}
