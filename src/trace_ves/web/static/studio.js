// The page to ask on: an estimate before anything is sent, then the search, event by event.

const data = JSON.parse(document.querySelector("#studio-data").textContent);
const form = document.querySelector("#ask");
const csrf = document.querySelector("meta[name=csrf]").content;
const find = (selector) => document.querySelector(selector);
const SVG = "http://www.w3.org/2000/svg";
let search = data.current;
let video = null; // what the running search is about: its name and its length
let durations = new Map();
let asking = 0; // the newest request for an estimate

function clock(seconds, decimals = 1) {
  const ticks = Math.round(seconds * 10 ** decimals);
  const whole = Math.floor(ticks / 10 ** decimals);
  const pad = (value) => String(value).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return `${hours ? `${hours}:${pad(minutes)}` : minutes}:${pad(whole % 60)}${decimals ? `.${ticks % 10}` : ""}`;
}

function made(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element[name] = value;
  element.append(...children);
  return element;
}

function term(id, text, className = "") {
  return made("a", { className: `term ${className}`, href: `/glossary#${id}`, title: data.terms[id] ?? "", textContent: text });
}

async function post(path, body) {
  const response = await fetch(path, {
    method: "POST",
    headers: { "Content-Type": "application/json", "X-CSRF-Token": csrf },
    body: JSON.stringify(body),
  });
  const found = await response.json().catch(() => ({ detail: "The server did not answer." }));
  if (!response.ok) throw new Error(found.detail);
  return found;
}

function say(problem) {
  find("#problem").textContent = problem ?? "";
  find("#problem").hidden = !problem;
}

function chosen() {
  const values = new FormData(form);
  const budget = Number(values.get("budget"));
  return { video: values.get("video"), method: values.get("method"), budget: budget || null };
}

function frameAt(name, moment, height) {
  return `/ask/frame?${new URLSearchParams({ video: name, t: String(moment), height: String(height) })}`;
}

function dollars(value) {
  return value === null ? null : value === 0 ? "$0" : value < 0.01 ? `$${value.toFixed(4)}` : `$${value.toFixed(2)}`;
}

// --- before: what it will cost ------------------------------------------------------------------

function words(estimate) {
  const line = find("#estimate");
  const counts = `about ${Math.round(estimate.calls)} calls, ${estimate.frames} frames, ${estimate.input_tokens.toLocaleString("en")} tokens in, ${estimate.output_tokens.toLocaleString("en")} out`;
  const plain = dollars(estimate.dollars);
  const free = estimate.dollars === 0;
  const price = made("b", { textContent: plain === null ? "No price is known for this model" : free ? "Costs nothing" : `Costs about ${plain}` });
  const thinking =
    plain === null || !estimate.dollars
      ? ""
      : `; ${dollars(estimate.dollars_thinking)} if the model thinks ${estimate.thinking_tokens} tokens a call`;
  line.replaceChildren(price, `${thinking}: ${counts}.`);
}

async function estimate() {
  const wanted = chosen();
  const number = ++asking;
  find("#send").disabled = true;
  if (!wanted.video) return;
  show(wanted.video);
  find("#estimate").textContent = "Estimating the cost; nothing is sent …";
  try {
    const found = await post("/ask/estimate", wanted);
    if (number !== asking) return;
    durations.set(wanted.video, found.duration);
    film.poster = frameAt(wanted.video, found.duration / 5, 360); // the first frame is often black
    find("#facts").textContent = `Duration ${clock(found.duration, 0)}`;
    words(found);
    say();
    find("#send").disabled = search !== 0;
  } catch (error) {
    if (number !== asking) return;
    find("#estimate").textContent = "No estimate.";
    say(error.message);
  }
}

// --- meanwhile: the progress ----------------------------------------------------------------

function clear(title) {
  for (const part of ["#live-search", "#answer-panel", "#lanes", "#watch .meters"]) find(part).hidden = false;
  find("#asked").textContent = title;
  find("#doing").textContent = "opening the video";
  find("#outcome").hidden = true;
  find("#look-when").textContent = "Looked at now";
  find("#look-stage").textContent = "";
  find("#bundle-note").textContent = "";
  for (const list of ["#looked", "#bundles", "#decisions"]) find(list).replaceChildren();
  find("#bundles").append(made("li", { className: "quiet none", textContent: "nothing found yet" }));
  find("#decisions").append(made("li", { className: "quiet none", textContent: "none yet" }));
  find("#evidence-panel").hidden = true;
  for (const name of ["storyboard", "looks", "clips", "evidence"]) lane(name).replaceChildren();
  find("#live-end").textContent = video.seconds ? clock(video.seconds, 0) : "";
}

function picture(moment, label) {
  const image = made("img", { alt: "", loading: "lazy", width: 160, height: 90, src: frameAt(video.name, moment, 96) });
  return [image, made("span", { textContent: label })];
}

// --- the video, and the search drawn under it -----------------------------------------------------

const film = find("#film");
const still = find("#still");

function show(name) {
  if (film.dataset.name === name) return;
  film.dataset.name = name;
  find("#watch").hidden = false;
  film.hidden = false;
  still.hidden = true;
  film.src = `/ask/video?${new URLSearchParams({ video: name })}`;
}

// A file that the browser cannot play is shown frame by frame.
film.addEventListener("error", () => {
  if (!film.dataset.name) return;
  film.hidden = true;
  still.hidden = false;
  still.src = frameAt(film.dataset.name, Number(still.dataset.at ?? 0), 360);
});
film.addEventListener("timeupdate", () => playhead(film.currentTime));

function playhead(moment) {
  const seconds = durations.get(film.dataset.name) || 1;
  for (const line of document.querySelectorAll("#lanes .head")) {
    line.setAttribute("x1", (1000 * moment) / seconds);
    line.setAttribute("x2", (1000 * moment) / seconds);
  }
  find("#at").textContent = `at ${clock(moment)}`;
}

function jump(moment) {
  still.dataset.at = String(moment);
  if (film.hidden) still.src = frameAt(film.dataset.name, moment, 360);
  else film.currentTime = moment;
  playhead(moment);
}

find("#lanes").addEventListener("click", (event) => {
  const svg = event.target.closest("svg");
  if (!svg) return;
  const marked = event.target.closest("[data-start]");
  const box = svg.getBoundingClientRect();
  const clicked = ((durations.get(film.dataset.name) || 0) * (event.clientX - box.left)) / box.width;
  jump(marked ? Number(marked.dataset.start) : clicked);
});

function lane(name) {
  return find(`#lanes [data-lane=${name}] g`);
}

function ticks(name, moments) {
  const scale = 1000 / (video.seconds || 1);
  const path = document.createElementNS(SVG, "path");
  path.setAttribute("d", moments.map((moment) => `M${(moment * scale).toFixed(2)} 2V14`).join(""));
  lane(name).append(path);
}

function bars(name, spans, title = () => "") {
  const scale = 1000 / (video.seconds || 1);
  for (const [at, [start, end]] of spans.entries()) {
    const box = document.createElementNS(SVG, "rect");
    const places = { x: start * scale, width: Math.max(3, (end - start) * scale), y: 2, height: 12, "data-start": start };
    for (const [key, value] of Object.entries(places)) box.setAttribute(key, value);
    const words = document.createElementNS(SVG, "title");
    words.textContent = `${clock(start)}-${clock(end)} ${title(at)}`;
    box.append(words);
    lane(name).append(box);
  }
}

let round = "";
let readings = 0;

function bundle(event) {
  const said = event.bundle;
  const status = term(said.status, said.status, `status ${said.status}`);
  const answer = made("b", { textContent: said.answer ?? "no answer yet" });
  const clips = event.spans.map(([start, end], at) =>
    made("div", { className: "clip" }, ...picture(said.pictures[at], `${clock(start, 0)}-${clock(end, 0)}`)),
  );
  if (event.spans.length > lane("clips").children.length) {
    lane("clips").replaceChildren();
    bars("clips", event.spans);
  }
  find("#bundles .none")?.remove();
  find("#bundles").prepend(made("li", {}, ...clips, status, answer));
  while (find("#bundles").children.length > 12) find("#bundles").lastElementChild.remove();
  find("#bundle-note").textContent = `${++readings} read so far, newest first`;
}

function decide(event) {
  find("#decisions .none")?.remove();
  const action = made("b", { className: `action ${event.action}` }, term(event.action.toLowerCase(), event.action));
  const item = made("li", {}, `${round || "round"}: `, action, ` ${event.words}`);
  for (const sentence of event.refused) item.append(made("div", { className: "quiet", textContent: `refused: ${sentence}` }));
  find("#decisions").append(item);
  find("#doing").replaceChildren(made("b", { textContent: round }), event.words);
}

const handlers = {
  round: (event) => (round = `Round ${event.number}`),
  stage: (event) => {
    find("#doing").replaceChildren(made("b", { textContent: round }), event.words);
    if (!event.frames.length) return;
    if (event.colour === "sky") ticks("storyboard", event.frames);
    else if (event.colour === "orange") bars("looks", event.spans);
    else ticks("looks", event.frames);
    find("#look-stage").textContent = `${event.title}, ${event.frames.length} frames`;
    find("#looked").replaceChildren(...event.frames.map((moment) => made("li", {}, ...picture(moment, clock(moment)))));
  },
  answered: (event) => event.bundle && bundle(event),
  decided: decide,
  rejected: (event) => {
    find("#decisions .none")?.remove();
    const text = `${event.title}: a reply could not be used (${event.reason}). It said: ${event.raw || "nothing"}`;
    find("#decisions").append(made("li", { className: "fault", textContent: text }));
  },
  done: (event) => {
    const number = search;
    finish(event.answer, `${event.ending} ${event.sentence ?? ""}`, event.found);
    for (const claim of event.open) find("#outcome .open").append(made("li", { textContent: `Still open: ${claim}` }));
    bars("evidence", event.clips.map((clip) => [clip.start, clip.end]), (at) => event.clips[at].facts.join("; "));
    find("#evidence-clips").replaceChildren(...event.clips.map(evidence));
    find("#evidence-panel").hidden = !event.clips.length;
    find("#story").hidden = find("#download").hidden = false;
    find("#download").href = `/ask/download?${new URLSearchParams({ search: String(number) })}`;
    find("#story").href = `/question?${new URLSearchParams({ run: data.run, id: event.title })}`;
    find("#story").focus({ preventScroll: true });
    remember("done", made("a", { href: find("#story").href, textContent: event.title }), `: ${event.answer}`);
  },
  failed: (event) => {
    finish("The search failed", event.sentence);
    remember("failed", find("#asked").textContent);
  },
  cancelled: () => {
    finish("Cancelled", "No further calls are sent; the reply to a call in flight is discarded.", "cancelled");
    remember("cancelled", find("#asked").textContent);
  },
};

function remember(state, ...question) {
  find("#before ol").prepend(made("li", {}, ...question, " ", made("span", { className: "quiet", textContent: `${video.name}, ${state}` })));
  find("#before").hidden = false;
}

function evidence(clip) {
  const button = made("button", { type: "button", title: "Show this moment" }, ...picture(clip.picture, `${clock(clip.start)}-${clock(clip.end)}`));
  button.addEventListener("click", () => jump(clip.picture));
  const words = made("div", {}, made("p", { textContent: clip.seen }));
  for (const fact of clip.facts) words.append(made("p", { className: "fact", textContent: `✓ ${fact}` }));
  return made("li", {}, button, words);
}

function finish(answer, ending, found = "error") {
  find("#doing").textContent = "";
  find("#waiting").hidden = true;
  find("#outcome").hidden = false;
  find("#outcome .answer").textContent = answer;
  find("#outcome .ending").textContent = ending;
  find("#outcome .open").replaceChildren();
  find("#outcome").dataset.found = found;
  find("#story").hidden = find("#download").hidden = true;
  find("#look-when").textContent = "Looked at last";
  find("#live-search").dataset.ended = "true";
  ended();
}

function meters(found, event) {
  if (event?.supplied !== undefined) {
    find("#budget").max = event.budget ?? Math.max(event.supplied, 1);
    find("#budget").value = event.supplied;
    find("#frames-used").textContent = event.budget ? `${event.supplied} of ${event.budget} frames` : `${event.supplied} frames`;
  }
  const money = dollars(found.spent.dollars);
  const tokens = (found.spent.input_tokens ?? 0) + (found.spent.output_tokens ?? 0);
  find("#spent").textContent = `${found.spent.calls} call${found.spent.calls === 1 ? "" : "s"}, ${tokens.toLocaleString("en")} tokens${money === null ? "" : `, ${money} so far`}`;
  find("#session-spent").textContent = `$${found.session.dollars.toFixed(found.session.dollars && found.session.dollars < 0.01 ? 4 : 2)}`;
  find("#waiting").textContent = found.waiting.join(" ");
  find("#waiting").hidden = !found.waiting.length || found.state !== "running";
}

function ended() {
  search = 0;
  find("#cancel").hidden = true;
  find("#send").disabled = false;
}

async function follow(number) {
  let after = 0;
  while (search === number) {
    try {
      const response = await fetch(`/ask/events?${new URLSearchParams({ search: String(number), after: String(after) })}`);
      if (!response.ok) throw new Error();
      const found = await response.json();
      after += found.events.length;
      for (const event of found.events) {
        meters(found, event);
        handlers[event.kind]?.(event);
      }
      meters(found);
      if (found.state !== "running" && !found.events.length) ended();
    } catch {
      find("#doing").textContent = "The server does not answer.";
      await new Promise((resume) => setTimeout(resume, 2000));
    }
  }
}

function watch(number, title, name) {
  search = number;
  video = { name, seconds: durations.get(name) ?? 0 };
  round = "";
  readings = 0;
  delete find("#live-search").dataset.ended;
  find("#send").disabled = true;
  find("#cancel").hidden = false;
  clear(title);
  show(name);
  find("#answer-panel").scrollIntoView({ block: "nearest" });
  follow(number);
}

form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const values = new FormData(form);
  const body = { ...chosen(), question: values.get("question"), options: values.getAll("option"), subtitles: values.has("subtitles") };
  if (body.options.filter((option) => option.trim()).length === 1) {
    say("Enter at least two options, or none for a free-text answer.");
    return;
  }
  find("#send").disabled = true;
  try {
    const { search: number } = await post("/ask", body);
    say();
    watch(number, body.question, body.video);
  } catch (error) {
    say(error.message);
    find("#send").disabled = search !== 0;
  }
});

find("#cancel").addEventListener("click", () => {
  find("#cancel").hidden = true;
  post("/ask/cancel", { search }).catch((error) => say(error.message));
});

find("#more-options").addEventListener("click", () => {
  const count = find("#options").children.length;
  if (count >= 26) return;
  const letter = String.fromCharCode(65 + count);
  const input = made("input", { name: "option", maxLength: 4000 });
  find("#options").append(made("li", {}, made("label", {}, made("span", { className: "unseen", textContent: "Option " }), made("b", { textContent: letter }), " ", input)));
  input.focus();
});

// --- a video of your own --------------------------------------------------------------------------

function offer(name) {
  const list = form.elements.video;
  list.querySelector("option[value='']")?.remove();
  if (![...list.options].some((option) => option.value === name)) list.append(made("option", { value: name, textContent: name }));
  list.value = name;
  find("#drop .invite b")?.remove();
  find("#welcome")?.remove();
  estimate();
}

function loading(words, share) {
  find("#loading").hidden = words === null;
  find("#loading span").textContent = words ?? "";
  if (share === undefined) find("#loading progress").removeAttribute("value");
  else find("#loading progress").value = share;
}

function upload(file) {
  say();
  const sending = new XMLHttpRequest();
  sending.open("POST", `/ask/upload?${new URLSearchParams({ name: file.name })}`);
  sending.setRequestHeader("X-CSRF-Token", csrf);
  sending.upload.onprogress = (event) => loading(`${file.name}: ${Math.round((100 * event.loaded) / event.total)} %`, event.loaded / event.total);
  sending.onloadend = () => {
    loading(null);
    let found = { detail: "The file could not be uploaded." };
    try {
      found = JSON.parse(sending.responseText);
    } catch {}
    if (sending.status === 200) offer(found.video);
    else say(found.detail);
  };
  sending.send(file);
}

find("#file").addEventListener("change", (event) => event.target.files[0] && upload(event.target.files[0]));
for (const kind of ["dragover", "dragleave", "drop"]) {
  document.addEventListener(kind, (event) => {
    event.preventDefault();
    find("#drop").classList.toggle("over", kind === "dragover");
    if (kind === "drop" && event.dataTransfer.files[0]) upload(event.dataTransfer.files[0]);
  });
}

async function fetchAddress() {
  const address = find("#address").value.trim();
  if (!address) return;
  say();
  loading("fetching …");
  try {
    offer((await post("/ask/fetch", { address })).video);
    find("#address").value = "";
  } catch (error) {
    say(error.message);
  }
  loading(null);
}
find("#fetch").addEventListener("click", fetchAddress);
find("#address").addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault();
  fetchAddress();
});

find(".samples").addEventListener("click", (event) => {
  const sample = JSON.parse(event.target.closest("[data-sample]")?.dataset.sample ?? "null");
  if (!sample) return;
  if (sample.video) offer(sample.video);
  form.elements.question.value = sample.question;
  while (find("#options").children.length < sample.options.length) find("#more-options").click();
  document.querySelectorAll("#options input").forEach((input, at) => (input.value = sample.options[at] ?? ""));
  form.elements.question.focus();
});

form.addEventListener("change", (event) => {
  if (["video", "method", "budget"].includes(event.target.name)) estimate();
});

if (!data.current) await estimate();
if (data.current) {
  form.elements.video.value = data.video; // the page was loaded again while a search runs
  await estimate();
  watch(data.current, data.title, data.video);
}
