// Writes to the server: every one carries the page's CSRF token, and a refusal is shown as its sentence.

const token = document.querySelector("meta[name=csrf]").content;
const notice = document.querySelector("#notice");

let busy = false;
addEventListener("pageshow", () => (busy = false)); // also a page that the browser kept

// A button that writes is dead until the script that hears it is there, so that no press is lost.
export function enable(selector) {
  for (const button of document.querySelectorAll(selector)) button.disabled = false;
}

export function notify(sentence) {
  notice.textContent = sentence;
  notice.hidden = false;
}

// The notice no longer holds.
export function retract() {
  notice.hidden = true;
}

// The server shows a video only to the annotator who has its task open: nothing may ask for it while the judgement that closes
// the task is on its way. Gives what to call if the task stays open after all.
function releaseVideos() {
  document.dispatchEvent(new CustomEvent("release-video")); // cancels a picture that is loading
  const films = [...document.querySelectorAll("video[src]")];
  const held = films.map((film) => [film, film.getAttribute("src"), film.currentTime]);
  for (const film of films) {
    film.removeAttribute("src");
    film.load();
  }
  return () => {
    for (const [film, source, moment] of held) {
      film.src = source;
      film.currentTime = moment;
    }
    dispatchEvent(new Event("resize")); // the timeline asks for its pictures again
  };
}

const reports = new Set(); // writes that stay on this page, and that the server has not answered

// A write that stays on this page: what the server says, an empty answer where it refuses, null where it is silent.
export async function send(path, body, leaving = false) {
  if (busy) return null; // a judgement is on its way, and then nothing more of its item is accepted
  const report = write(path, body, leaving);
  reports.add(report);
  const said = await report;
  reports.delete(report);
  return said;
}

async function write(path, body, leaving) {
  try {
    const response = await fetch(path, {
      method: "POST",
      keepalive: leaving,
      headers: { "Content-Type": "application/json", "X-CSRF-Token": token },
      body: JSON.stringify(body),
    });
    const said = await response.json();
    return response.ok ? said : { detail: said.detail };
  } catch {
    return null;
  }
}

export async function post(path, body) {
  if (busy) return;
  busy = true;
  notice.hidden = true;
  const takeBack = releaseVideos();
  const stay = (sentence) => {
    takeBack();
    notify(sentence);
  };
  await Promise.all(reports); // a judgement that overtakes a report closes the task that it is about
  try {
    const response = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json", "X-CSRF-Token": token },
      body: JSON.stringify(body ?? {}),
    });
    const said = await response.json();
    if (!response.ok) stay(said.detail);
    else if (said.go === location.pathname && path === "/api/next") document.querySelector("#nothing").hidden = false;
    else {
      location.assign(said.go);
      return; // still busy: this page only waits for the next one
    }
  } catch {
    stay("The server is not answering; this judgement is not saved yet.");
  }
  busy = false;
}
