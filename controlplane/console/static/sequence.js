import { h } from "./dom.js";

const room = 200; // events that are shown
const rowHeight = 26, top = 34, left = 92, width = 1000, right = width - 40;

const svg = (name, attributes = {}, ...children) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) if (value != null) e.setAttribute(key, value);
  e.append(...children);
  return e;
};

// Sequence draws events of a trace as messages between the client and the server,
// the latest at the bottom.
export class Sequence {
  #events = [];
  #calls = new Map(); // by XID: when the call came, its direction, and a number for a colour
  #keys = new Map(); // steering tag: XID of the call that offered the memory
  #count = 0;
  #picture = svg("svg", { class: "sequence", role: "img", "aria-label": "Messages between the client and the server. The list below has them as text." });
  #list = h("ol", { class: "events" });
  #scroll = h("div", { class: "list trace", tabindex: 0, role: "region", "aria-label": "Trace" }, this.#picture);
  #drawing = 0;

  // client and server are the texts above the two lines. toServer says whether an event's
  // data goes to the server.
  constructor(client, server, toServer) {
    Object.assign(this, { client, server, toServer });
    this.place = h("div", {}, this.#scroll, h("details", {}, h("summary", {}, "The trace as text"), this.#list));
    this.#draw();
  }

  clear() {
    this.#events = [];
    this.#calls.clear();
    this.#keys.clear();
    this.#later();
  }

  add(e) {
    const at = Date.parse(e.time) + fraction(e.time);
    const xid = e.header ? e.header.xid : this.#keys.get(e.rkey);
    const call = e.header && this.#note(e, at);
    this.#events.push({ e, at, number: ++this.#count, text: describe(e), took: call, tone: xid == null ? "quiet" : `call${this.#calls.get(xid)?.tone ?? 0}` });
    if (this.#events.length > room) this.#events.shift();
    this.#later();
  }

  // note remembers a call with its chunks, and returns the time that a reply took, in µs.
  #note({ header, direction }, at) {
    const before = this.#calls.get(header.xid);
    if (before && before.direction !== direction) return 1000 * (at - before.at);
    this.#calls.delete(header.xid); // the newest are the last
    this.#calls.set(header.xid, { at, direction, tone: header.xid % 4 });
    const chunks = [...header.writes, ...(header.reply ? [header.reply] : [])].flatMap((c) => c.segments);
    for (const s of [...header.reads.map((r) => r.segment), ...chunks]) this.#keys.set(s.handle, header.xid);
    for (const map of [this.#calls, this.#keys]) {
      while (map.size > 4 * room) map.delete(map.keys().next().value);
    }
    return null;
  }

  #later() {
    this.#drawing ||= setTimeout(() => { this.#drawing = 0; this.#draw(); }, 200);
  }

  #draw() {
    const follow = this.#scroll.scrollTop + this.#scroll.clientHeight > this.#scroll.scrollHeight - 2 * rowHeight;
    const height = top + Math.max(1, this.#events.length) * rowHeight + 12;
    this.#picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.#picture.replaceChildren(
      svg("defs", {}, svg("marker", { id: "arrow", viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 9, markerHeight: 9, markerUnits: "userSpaceOnUse", orient: "auto" }, svg("path", { d: "M0 0 8 4 0 8z", class: "head" }))),
      svg("text", { x: left, y: 20, class: "end" }, this.client), svg("text", { x: right, y: 20, class: "end right" }, this.server),
      svg("line", { x1: left, x2: left, y1: 26, y2: height, class: "life" }), svg("line", { x1: right, x2: right, y1: 26, y2: height, class: "life" }),
      ...this.#events.map((v, i) => this.#arrow(v, i)),
    );
    this.#list.replaceChildren(...this.#events.map((v) => h("li", { value: v.number }, v.e.summary)));
    if (follow) this.#scroll.scrollTop = this.#scroll.scrollHeight;
  }

  #arrow({ e, at, text, took, tone }, i) {
    const y = top + (i + 0.7) * rowHeight;
    const [from, to] = this.toServer(e) ? [left, right] : [right, left];
    const rdma = e.operation.startsWith("RDMA");
    const since = i === 0 ? 0 : at - this.#events[i - 1].at;
    return svg("g", { class: `${tone} ${rdma ? "rdma" : "send"} ${e.malformed || e.header?.error ? "wrong" : ""}` },
      svg("title", {}, e.summary),
      svg("text", { x: 4, y: y + 4, class: "time" }, `+${since < 1 ? `${Math.round(1000 * since)} µs` : `${since.toFixed(1)} ms`}`),
      svg("line", { x1: from, x2: to, y1: y, y2: y, "marker-end": "url(#arrow)" }),
      svg("text", { x: (left + right) / 2, y: y - 4, class: "what" }, took == null ? text : `${text} · after ${Math.round(took)} µs`));
  }
}

// fraction is what Date.parse drops of a time: below a millisecond, in ms.
function fraction(time) {
  const digits = /\.\d{3}(\d+)/.exec(time);
  return digits ? Number(`0.${digits[1]}`) : 0;
}

const bytes = (segments) => segments.reduce((sum, s) => sum + s.length, 0);

// describe is an event in a few words.
function describe(e) {
  if (e.malformed) return `${e.length} bytes: ${e.malformed}`;
  const parts = [];
  if (e.operation === "RDMA_READ" || e.operation === "RDMA_WRITE") return `${e.operation === "RDMA_READ" ? "RDMA Read" : "RDMA Write"}, ${e.length} bytes, key ${hex(e.rkey)}`;
  const { header: t, rpc } = e;
  if (rpc) parts.push(rpc.name || (rpc.reply ? "" : `program ${rpc.program} procedure ${rpc.procedure}`), rpc.reply ? `reply ${rpc.status}` : "call");
  if (!t) parts.push(`${e.length} bytes`);
  else {
    parts.push(`${t.operation || t.procedure} ${hex(t.xid)}`, t.error, `credits ${t.credits}`);
    for (const r of t.reads) parts.push(`read chunk ${r.segment.length} at ${r.position}`);
    for (const w of t.writes) parts.push(`write chunk ${bytes(w.segments)}`);
    if (t.reply) parts.push(`reply chunk ${bytes(t.reply.segments)}`);
  }
  if (e.operation === "SEND_WITH_INVALIDATE") parts.push(`invalidates ${hex(e.rkey)}`);
  return parts.filter(Boolean).join(" · ");
}

const hex = (n) => `0x${n.toString(16)}`;
