// Streams of rdmad that stay open, and what they brought so far.

import { ApiError, NotReached, watch } from "./api.js";

const shortest = 500, longest = 8000; // ms between two attempts

// final are errors that another attempt would not change.
const final = ["unauthenticated", "permission_denied", "not_found", "invalid_argument", "unimplemented"];

// follow keeps a stream open until signal ends it, or rdmad refuses it. lost is
// called when it has ended, with the reason; then it is opened again.
export async function follow(method, request, signal, { silence, began, message, lost }) {
  let wait = shortest;
  while (!signal.aborted) {
    let problem = new NotReached("rdmad does not answer");
    try {
      await watch(method, request, { signal, silence, message, began: () => { wait = shortest; began?.(); } });
    } catch (p) {
      problem = p;
    }
    if (signal.aborted) return;
    lost?.(problem);
    if (problem instanceof ApiError && final.includes(problem.code)) return;
    await pause(wait * (0.5 + Math.random() / 2), signal); // not all pages at once
    wait = Math.min(2 * wait, longest);
  }
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, { once: true });
  });
}

const room = 900; // samples that a history keeps

// Samples is a history of values over time, for plots: columns of equal length. A row
// of nulls is a time that was not seen.
export class Samples {
  times = []; // s
  columns;

  constructor(width) {
    this.columns = Array.from({ length: width }, () => []);
  }

  // add adds what a sample of rdmad has. It covers some seconds.
  add(sample, values) {
    const at = Date.parse(sample.time) / 1000;
    while (this.times.at(-1) >= at) { // rdmad's clock was set back
      this.times.pop();
      for (const c of this.columns) c.pop();
    }
    const last = this.times.at(-1);
    if (last == null || at - sample.seconds > last + 1) this.#row(at - sample.seconds, values.map(() => null));
    this.#row(at, values);
  }

  #row(at, values) {
    this.times.push(at);
    this.columns.forEach((c, i) => c.push(values[i]));
    if (this.times.length <= room) return;
    this.times.shift();
    for (const c of this.columns) c.shift();
  }
}

// changes are the revisions that this page has seen, the oldest first.
export const changes = [];

// changed notes a revision, or its new state.
export function changed(revision) {
  const i = changes.findIndex((r) => r.revision === revision.revision);
  if (i >= 0) changes[i] = revision;
  else changes.push(revision);
  changes.sort((a, b) => a.revision - b.revision);
  if (changes.length > room) changes.shift();
}
