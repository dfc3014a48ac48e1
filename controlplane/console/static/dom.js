// Elements, and how values look. Texts of rdmad go into text nodes only.

// h makes an element: h("td", {class: "number"}, "7"). Functions are listeners.
export function h(name, attributes = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value === "function") e.addEventListener(key, value);
    else if (value === true) e.setAttribute(key, "");
    else if (value !== false && value != null) e.setAttribute(key, value);
  }
  e.append(...children.flat().filter((c) => c != null && c !== false));
  return e;
}

// table makes a table. A column is {name, cell(row), number}.
export function table(caption, columns, rows, empty) {
  if (rows.length === 0) return h("p", { class: "quiet" }, empty);
  // A keyboard scrolls what has the focus.
  return h("div", { class: "scroll", role: "region", "aria-label": caption, tabindex: 0 }, h("table", {},
    h("caption", {}, caption),
    h("thead", {}, h("tr", {}, columns.map((c) => h("th", { scope: "col", class: c.number && "number" }, c.name)))),
    h("tbody", {}, rows.map((r) => h("tr", {}, columns.map((c) => h("td", { class: c.number && "number" }, c.cell(r)))))),
  ));
}

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { maximumFractionDigits: 1 });

export const number = (n) => whole.format(n);

// rate is a number per second.
export const rate = (n) => (n == null ? "…" : short.format(n));

// zone is the browser's time zone, which all times have.
export const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;

// when is a time of rdmad in the browser's time zone.
export function when(text) {
  const t = new Date(text);
  return h("time", { datetime: text, title: `${zone}; ${text} in UTC` }, clock(t));
}

export const clock = (t) => t.toLocaleString("sv-SE");

// duration is a number of seconds as people say it.
export function duration(seconds) {
  const s = Math.max(0, Math.floor(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}

// Rates turns growing counters into rates: of(key, value) is per second since the
// sample before, or null.
export class Rates {
  #before = new Map();
  #now = new Map();
  #seconds = 0;
  #at = 0;

  // sample begins a new sample.
  sample() {
    const at = performance.now();
    this.#seconds = (at - this.#at) / 1000;
    this.#at = at;
    this.#before = this.#now;
    this.#now = new Map();
  }

  of(key, value) {
    const before = this.#before.get(key);
    this.#now.set(key, value);
    return before == null || value < before ? null : (value - before) / this.#seconds;
  }
}
