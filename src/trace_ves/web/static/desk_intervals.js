// The intervals of an item: choose one, play it in a loop, move, add and remove them, correct the answer, say the
// verdict. Every edit can be undone and survives a reload until the verdict is saved.

import { enable, notify, post, retract } from "./desk_post.js";
import { clock } from "./desk_time.js";
import { ENOUGH, Watch, shareOf } from "./desk_watch.js";

const data = JSON.parse(document.querySelector("#data").textContent);
const root = document.querySelector("#player");
const video = root.querySelector("video");
const list = document.querySelector("#intervals");
const row = document.querySelector("#interval-row");
const form = document.querySelector("[data-verdict]");
const proposed = data.evidence;
const draftKey = `trace-ves-draft:${data.item}:${data.revision ?? data.about}`;

const STILL_MS = 150;
const SETTLE_MS = 40;
const NEW_SECONDS = 2;
const SHORTEST_SECONDS = 0.1;

// What was edited. `from` is the place of the proposed interval that a span began as; null for one that was added.
let draft = {
  spans: data.spans.map((span, place) => ({ span, from: proposed[place] ? place : null })),
  answer: data.answer,
  comment: "",
};
let undone = []; // drafts before each edit, the newest last
let chosen = 0;
let looping = false;
let stills; // the timer of a loop of pictures, where the browser cannot play the file
let moment = 0;
let resumeAt = 0; // where one stopped the last time
let times = [];
let watched = data.watched;
let unplayed = null; // the interval that a notice asks for

const watch = new Watch({
  item: data.item,
  onPlayed: (spans) => {
    watched = spans;
    if (unplayed && shareOf(unplayed, watched) >= ENOUGH) retract();
    show();
  },
});

function seek(seconds) {
  document.dispatchEvent(new CustomEvent("seek", { detail: Math.min(Math.max(seconds, 0), data.duration) }));
}

function remember() {
  try {
    localStorage.setItem(draftKey, JSON.stringify({ ...draft, chosen, moment }));
  } catch {
    // then an edit lasts as long as the page
  }
}

function recall() {
  try {
    const found = JSON.parse(localStorage.getItem(draftKey));
    if (!found?.spans?.length) return;
    ({ chosen = 0, moment: resumeAt = 0, ...draft } = found);
  } catch {
    // nothing usable was kept
  }
}

function edit(change) {
  if (data.fixed) return;
  stop();
  undone.push(structuredClone(draft));
  change();
  draft.spans.sort((a, b) => a.span[0] - b.span[0]);
  remember();
  show();
}

function undoEdit() {
  if (!undone.length) return false;
  stop();
  draft = undone.pop();
  chosen = Math.min(chosen, draft.spans.length - 1);
  remember();
  show();
  return true;
}

function card({ span: [start, end], from }, place) {
  const made = row.content.firstElementChild.cloneNode(true);
  made.dataset.start = start;
  made.dataset.end = end;
  made.classList.toggle("chosen", place === chosen);
  made.querySelector(".ordinal").textContent = place + 1;
  made.querySelector(".start").textContent = clock(start);
  made.querySelector(".end").textContent = clock(end);
  made.querySelector(".rationale").textContent = from === null ? "added by you" : data.rationales[from] ?? "";
  const was = from === null ? null : proposed[from];
  const moved = was && (start !== was[0] || end !== was[1]);
  made.querySelector(".moved").textContent = moved ? `moved from ${clock(was[0])}–${clock(was[1])}` : "";
  const share = shareOf([start, end], watched);
  const badge = made.querySelector(".played");
  badge.textContent = share >= ENOUGH ? "✓ played" : share > 0 ? `played ${Math.floor(100 * share)} %` : "not played yet";
  badge.classList.toggle("done", share >= ENOUGH);
  made.querySelector("[data-remove]")?.setAttribute("data-remove", place);
  return made;
}

function show() {
  list.replaceChildren(...draft.spans.map(card));
  for (const button of document.querySelectorAll("[data-option]")) {
    const right = button.dataset.option === draft.answer;
    button.setAttribute("aria-pressed", String(right));
    button.closest("li").classList.toggle("gold", right);
    const badge = button.querySelector(".badge.gold");
    badge.hidden = !right;
    badge.textContent = draft.answer === data.answer ? "proposed answer" : "your answer";
  }
  const undoButton = document.querySelector("[data-interval=undo]");
  if (undoButton) undoButton.disabled = !undone.length;
  const spans = draft.spans.map(({ span }) => span);
  document.dispatchEvent(new CustomEvent("intervals", { detail: { spans, chosen, watched, looping } }));
}

function stop() {
  looping = false;
  list.dataset.looping = "";
  showLoop();
  clearInterval(stills);
  if (!video.paused) root.querySelector("[data-do=play]").click();
}

function showLoop() {
  document.querySelector("[data-interval=loop]").setAttribute("aria-pressed", String(looping));
}

function choose(place) {
  stop();
  chosen = Math.min(Math.max(place, 0), draft.spans.length - 1);
  show();
  seek(draft.spans[chosen].span[0]);
}

// The player shows the exact frame first; the film continues from there.
function play() {
  seek(draft.spans[chosen].span[0]);
  const settled = setInterval(() => {
    if (looping && !root.dataset.shown) return;
    clearInterval(settled);
    if (looping && video.paused) root.querySelector("[data-do=play]").click();
  }, SETTLE_MS);
}

// An interval that was played to its end is ticked at once, not with the next report.
function tick() {
  if (shareOf(draft.spans[chosen].span, watched) < ENOUGH) watch.report();
}

function loop() {
  if (looping) {
    stop();
    return;
  }
  looping = true;
  list.dataset.looping = String(chosen);
  showLoop();
  if (root.dataset.mode !== "stills") {
    play();
    return;
  }
  seek(draft.spans[chosen].span[0]);
  stills = setInterval(() => {
    const [start, end] = draft.spans[chosen].span;
    const next = moment + STILL_MS / 1000;
    if (next > end) {
      watch.upTo(end);
      tick();
    }
    seek(next > end ? start : next);
  }, STILL_MS);
}

document.addEventListener("moment", (event) => {
  moment = event.detail;
  watch.at(moment, root.dataset.mode === "stills" ? looping : !video.paused);
  if (looping && root.dataset.mode !== "stills" && !video.paused && moment >= draft.spans[chosen].span[1]) {
    tick();
    play();
  }
});
video.addEventListener("ended", () => {
  watch.upTo(data.duration);
  tick();
  if (looping) play();
});

function frameStep(seconds, by) {
  let at = times.findLastIndex((each) => each <= seconds + 1e-6);
  if (by > 0 || times[at] >= seconds - 1e-6) at += by; // an edge between two frames goes to the one before it first
  return times[Math.min(Math.max(at, 0), times.length - 1)];
}

// The true timestamp that is nearest to a moment; the end of the video is one too.
function snapped(seconds) {
  let best = Math.abs(seconds - data.duration) < 0.02 ? data.duration : seconds;
  let distance = Infinity;
  for (const each of times) {
    if (Math.abs(each - seconds) >= distance) break;
    distance = Math.abs(each - seconds);
    best = each;
  }
  return best;
}

const moves = {
  "-1s": (edge) => edge - 1,
  "+1s": (edge) => edge + 1,
  "-1f": (edge) => frameStep(edge, -1),
  "+1f": (edge) => frameStep(edge, 1),
  here: () => moment,
};

function rounded(seconds) {
  return Math.round(Math.min(Math.max(seconds, 0), data.duration) * 1000) / 1000;
}

// Moves one edge, unless the interval would end before it starts or reach into its neighbour.
function moveEdge(place, edge, seconds) {
  const next = [...draft.spans[place].span];
  next[edge] = rounded(seconds);
  if (next[1] - next[0] < SHORTEST_SECONDS) {
    notify("An interval must end after its start.");
    return false;
  }
  if (draft.spans.some(({ span }, other) => other !== place && span[0] < next[1] && next[0] < span[1])) {
    notify("Intervals must not overlap.");
    return false;
  }
  edit(() => (draft.spans[place].span = next));
  return true;
}

function nudge(which, how) {
  if (data.fixed) return;
  const edge = which === "start" ? 0 : 1;
  if (moveEdge(chosen, edge, moves[how](draft.spans[chosen].span[edge]))) seek(draft.spans[chosen].span[edge]);
}

function add(from, to) {
  const start = rounded(from);
  const next = draft.spans.map(({ span }) => span).find((span) => span[1] > start);
  const end = rounded(Math.min(to ?? start + NEW_SECONDS, next ? next[0] : data.duration));
  if ((next && next[0] <= start) || end - start < SHORTEST_SECONDS) {
    notify("There is no room for an interval here; go to a moment outside the others.");
    return;
  }
  edit(() => {
    draft.spans.push({ span: [start, end], from: null });
    chosen = draft.spans.filter(({ span }) => span[0] < start).length;
  });
}

function remove(place) {
  if (draft.spans.length < 2) {
    notify("An item needs an interval; reject the item if none is right.");
    return;
  }
  edit(() => {
    draft.spans.splice(place, 1);
    chosen = Math.min(chosen, draft.spans.length - 1);
  });
}

async function say(verdict) {
  const reason = form.elements.reason.value.trim();
  if (verdict !== "accept" && !reason) {
    notify(`Say why: ${{ reject: "what is wrong?", unsure: "what are you unsure about?", skip: "why can't you judge it?" }[verdict]}`);
    form.elements.reason.focus();
    return;
  }
  if (verdict === "skip") {
    post("/api/skip", { item: data.item, reason });
    return;
  }
  await watch.report();
  const accepted = verdict === "accept";
  const missing = draft.spans.findIndex(({ span }) => shareOf(span, watched) < ENOUGH);
  if (accepted && !data.fixed && missing >= 0) {
    unplayed = draft.spans[missing].span;
    notify(`Play every interval to its end first; interval ${missing + 1} is not played yet.`);
    choose(missing);
    return;
  }
  const evidence = accepted && !data.fixed ? draft.spans.map(({ span }) => span) : [];
  const answer = accepted && draft.answer !== data.answer ? draft.answer : "";
  const body = { item: data.item, evidence, answer };
  const more = data.about
    ? { about: data.about, keep: accepted, reason }
    : { revision: data.revision, verdict, reason: accepted ? "" : reason, comment: form.elements.comment.value.trim() };
  post(form.dataset.verdict, { ...body, ...more });
}

const ways = {
  loop,
  before: () => choose(chosen - 1),
  after: () => choose(chosen + 1),
  add: () => add(moment),
  remove: () => remove(chosen),
  undo: undoEdit,
};

document.addEventListener("click", (event) => {
  const pressed = event.target.closest(
    "[data-remove], [data-interval], [data-nudge], [data-say], [data-take], [data-option], #intervals .interval",
  );
  if (!pressed) return;
  const given = pressed.dataset;
  if (given.remove) remove(Number(given.remove));
  else if (given.interval) ways[given.interval]();
  else if (given.nudge) nudge(...given.nudge.split(":"));
  else if (given.say) say(given.say);
  else if (given.option) edit(() => (draft.answer = given.option));
  else if (given.take) {
    edit(() => (draft.spans = JSON.parse(given.take).map((span, place) => ({ span, from: proposed[place] ? place : null }))));
    choose(0);
  } else choose([...list.children].indexOf(pressed));
});

form.elements.reason.addEventListener("keydown", (event) => {
  if (event.key === "Enter") {
    event.preventDefault();
    say("reject");
  }
});

form.elements.comment?.addEventListener("input", () => {
  draft.comment = form.elements.comment.value;
  remember();
});

// The timeline asks for these; it draws what "intervals" tells.
document.addEventListener("choose-interval", (event) => choose(event.detail));
document.addEventListener("drag-edge", (event) => {
  const { place, edge, seconds } = event.detail;
  if (!data.fixed && moveEdge(place, edge, snapped(seconds))) seek(draft.spans[place].span[edge]);
});
document.addEventListener("new-interval", (event) => add(snapped(event.detail[0]), snapped(event.detail[1])));

recall();
if (form.elements.comment) form.elements.comment.value = draft.comment;
show();
const response = await fetch(root.dataset.times);
if (response.ok) times = [...new Float64Array(await response.arrayBuffer())];
list.dataset.ready = "true";
enable("[data-say]");
if (!location.hash) seek(resumeAt || draft.spans[chosen].span[0]);
addEventListener("pagehide", remember);
