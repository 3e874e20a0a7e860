// What was really played, reported to the server every few seconds: a judgement needs every interval played once.

import { send } from "./desk_post.js";

const REPORT_MS = 3000;
const GAP_SECONDS = 1.5; // two moments further apart than this were not played through
const JOIN_SECONDS = 0.12;
export const ENOUGH = 0.95;

// Spans in order, with those that touch made one.
export function joined(spans) {
  const found = [];
  for (const [start, end] of [...spans].sort((a, b) => a[0] - b[0])) {
    const last = found.at(-1);
    if (last && start <= last[1] + JOIN_SECONDS) last[1] = Math.max(last[1], end);
    else found.push([start, end]);
  }
  return found;
}

export function shareOf([start, end], spans) {
  const inside = joined(spans).map(([from, to]) => Math.max(0, Math.min(to, end) - Math.max(from, start)));
  return Math.min(1, inside.reduce((sum, each) => sum + each, 0) / (end - start));
}

// Collects what is played of one film. `part` names a clip of a partial set, whose end is 1 in a report.
export class Watch {
  constructor({ item, part, length = () => 1, onPlayed }) {
    Object.assign(this, { item, part, length, onPlayed });
    this.pending = [];
    this.last = null;
    setInterval(() => this.report(), REPORT_MS);
    addEventListener("pagehide", () => this.report(true));
  }

  // The film shows this moment now; `playing` says whether it got there by playing.
  at(moment, playing) {
    if (playing && !document.hidden) this.#add(moment);
    this.last = playing && !document.hidden ? moment : null;
  }

  // The film was played up to here, though no further frame tells so.
  upTo(moment) {
    if (!document.hidden) this.#add(moment);
    this.last = null;
  }

  #add(moment) {
    const played = moment - this.last; // no number where the film was let go
    if (this.last === null || !(played > 0 && played <= GAP_SECONDS)) return;
    this.pending.push([this.last / this.length(), moment / this.length()]);
  }

  async report(leaving = false) {
    const spans = joined(this.pending);
    this.pending = [];
    if (!spans.length) return;
    const part = this.part === undefined ? {} : { part: this.part };
    const said = await send("/api/watched", { item: this.item, spans, ...part }, leaving);
    if (said === null) this.pending.push(...spans); // the server did not answer: the next report says it again
    else if (said.spans) this.onPlayed(said.spans);
  }
}
