import { command, copyable } from "./command.js";
import { h, number, rate } from "./dom.js";
import { Line } from "./line.js";

const columns = [
  { name: "ID", key: "id", text: true },
  { name: "Listener", key: "listener", text: true },
  { name: "Peer", key: "peer", text: true, wide: true },
  { name: "Version", key: "rpc_version" },
  { name: "State", key: "state", text: true },
  { name: "Calls", key: "line", drawn: true },
  { name: "Calls/s", key: "calls", rate: true },
  { name: "In, MB/s", key: "in", rate: true },
  { name: "Out, MB/s", key: "out", rate: true },
  { name: "Reads/s", key: "reads", rate: true },
  { name: "Writes/s", key: "writes", rate: true },
  { name: "Busy", key: "calls_in_progress" },
  { name: "Credits", key: "credits_granted" },
  { name: "Errors", key: "errors" },
];

const mask = "id,listener,peer,rpcVersion,state,callsInProgress,creditsGranted,errors,extensions";
const rowHeight = 33; // px, as in live.css with the line below a row
const spare = 8; // rows outside of what is seen
const idle = { calls: 0, in: 0, out: 0, reads: 0, writes: 0, calls_in_progress: 0 };

// connections shows all connections, sorted and filtered as the address says. The
// document has only the rows that are seen.
export function connections({ query }) {
  let by = columns.find((c) => c.key === query.get("sort") && !c.drawn) ?? columns[6];
  let down = query.has("order") ? query.get("order") === "down" : !by.text;
  let filter = query.get("filter") ?? "";
  const all = new Map(); // by id
  let found = [], current = 0, drawing = 0, sorting = 0;
  let known = false; // whether rdmad has sent the connections

  const input = h("input", {
    id: "filter", type: "search", autocomplete: "off", placeholder: "id, listener, peer, state or extension", value: filter,
    input: () => { filter = input.value.trim(); current = 0; list.scrollTop = 0; remember(); sort(); },
  });
  const counted = h("span", { class: "quiet", role: "status" });
  const heads = columns.map((c) => h("th", { scope: "col", class: [!c.text && "number", c.wide && "peer"].filter(Boolean).join(" ") },
    c.drawn ? c.name : h("button", { type: "button", click: () => choose(c) }, c.name)));
  const body = h("tbody");
  const table = h("table", { keydown: keys },
    h("caption", { class: "unseen" }, "Connections. Arrow keys move between them, Enter opens one."),
    h("thead", {}, h("tr", { "aria-rowindex": 1 }, heads)), body);
  const inside = h("div", { class: "inside" }, table);
  const list = h("div", { class: "list", scroll: later }, inside);
  const resized = new ResizeObserver(later);
  resized.observe(list);

  // remember puts what is shown into the address.
  function remember() {
    const q = new URLSearchParams();
    if (filter) q.set("filter", filter);
    q.set("sort", by.key);
    q.set("order", down ? "down" : "up");
    history.replaceState(null, "", `#/connections?${q}`);
  }

  function choose(c) {
    down = c === by ? !down : !c.text;
    by = c;
    remember();
    sort();
  }

  // sort finds the rows to show, in their order.
  function sort() {
    columns.forEach((c, i) => {
      if (c === by) heads[i].setAttribute("aria-sort", down ? "descending" : "ascending");
      else heads[i].removeAttribute("aria-sort");
    });
    const wanted = filter.toLowerCase();
    found = [...all.values()].filter((r) => wanted === "" || r.text.includes(wanted));
    const order = by.text ? (a, b) => compare(a[by.key], b[by.key]) : (a, b) => a[by.key] - b[by.key];
    found.sort((a, b) => (down ? order(b, a) : order(a, b)) || compare(a.id, b.id));
    counted.textContent = `${number(found.length)} of ${number(all.size)} shown`;
    draw();
  }

  function later() {
    drawing ||= requestAnimationFrame(() => { drawing = 0; draw(); });
  }

  // draw puts the rows that are seen into the document.
  function draw() {
    const first = Math.max(0, Math.floor(list.scrollTop / rowHeight) - spare);
    const last = Math.min(found.length, Math.ceil((list.scrollTop + list.clientHeight) / rowHeight) + spare);
    inside.style.height = `${heads[0].offsetHeight + found.length * rowHeight}px`;
    table.style.marginTop = `${Math.min(first, found.length) * rowHeight}px`;
    table.setAttribute("aria-rowcount", found.length + 1);
    current = Math.min(current, Math.max(0, found.length - 1));
    const focused = body.contains(document.activeElement) ? document.activeElement.closest("tr").dataset.id : null;
    const rows = found.slice(first, last).map((r, i) => fill(r, first + i));
    if (rows.length === 0) {
      rows.push(h("tr", {}, h("td", { colspan: columns.length, class: "quiet" },
        !known ? "Loading …" : all.size === 0 ? "No connections. docs/mount.md shows how a client mounts." : "No connection matches the filter.")));
    }
    if (rows.length !== body.children.length || rows.some((r, i) => r !== body.children[i])) body.replaceChildren(...rows);
    if (focused) all.get(focused)?.row?.querySelector("a").focus({ preventScroll: true });
  }

  // fill makes the row of a connection, or shows its values of now.
  function fill(r, i) {
    r.row ??= h("tr", { "data-id": r.id }, columns.map((c) => h("td", { class: !c.text && "number" },
      c.key === "id" ? h("a", { href: `#/connections/${encodeURIComponent(r.id)}` }, r.id) : c.drawn && r.line.canvas)));
    r.row.setAttribute("aria-rowindex", i + 2);
    r.row.querySelector("a").tabIndex = i === current ? 0 : -1;
    columns.forEach((c, n) => {
      if (c.key === "id") return;
      if (c.drawn) r.line.draw();
      else {
        const text = c.text ? r[c.key] : c.rate ? rate(r[c.key]) : number(r[c.key]);
        if (r.row.children[n].textContent !== text) r.row.children[n].textContent = text;
      }
    });
    return r.row;
  }

  // keys moves between connections.
  function keys(e) {
    if (!body.contains(e.target)) return;
    const page = Math.max(1, Math.floor(list.clientHeight / rowHeight) - 2);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -found.length, End: found.length }[e.key];
    if (!step) return;
    e.preventDefault();
    current = Math.max(0, Math.min(found.length - 1, current + step));
    const top = current * rowHeight, head = heads[0].offsetHeight;
    if (top < list.scrollTop) list.scrollTop = top;
    else if (top + rowHeight + head > list.scrollTop + list.clientHeight) list.scrollTop = top + rowHeight + head - list.clientHeight;
    draw();
    found[current].row.querySelector("a").focus({ preventScroll: true });
  }

  // event is one of the stream: connections that are up, or one that is new, changed or gone.
  function event({ type, connection, connections }) {
    if (type === "DOWN") all.delete(connection.id);
    else for (const c of type === "EXISTING" ? connections : [connection]) put(c);
    soon();
  }

  function put(c) {
    const r = all.get(c.id) ?? { ...idle, line: new Line() };
    Object.assign(r, c, { text: `${c.id} ${c.listener} ${c.peer} ${c.state} ${c.extensions.join(" ")}`.toLowerCase() });
    all.set(c.id, r);
  }

  // soon sorts after a while: thousands of events may come at once.
  function soon() {
    sorting ||= setTimeout(() => { sorting = 0; known = true; sort(); }, 200);
  }

  return {
    telemetry: { interval: "2s", read_mask: "time,seconds,total,listeners,serviceTimeUsP50,serviceTimeUsP99,connections", busy_only: true },
    streams: [{
      method: "ConnectionService/WatchConnections", request: { read_mask: mask, batches: true },
      began: () => { all.clear(); soon(); }, message: event,
    }],
    load: async () => null,
    show(place) {
      if (list.isConnected) return;
      place.replaceChildren(
        h("h1", {}, "Connections"),
        h("form", { class: "bar", submit: (e) => e.preventDefault() }, h("label", { for: "filter" }, "Filter "), input, counted, copyable(command("connections", "watch"))),
        list,
      );
      sort();
    },
    // sample has the connections with traffic. The others are idle.
    sample(s) {
      const busy = new Map(s.connections.map((c) => [c.id, c]));
      for (const [id, r] of all) {
        const c = busy.get(id);
        if (c) {
          const { rates } = c;
          Object.assign(r, {
            calls: rates.calls, in: rates.bytes_received / 1e6, out: rates.bytes_sent / 1e6, reads: rates.rdma_reads, writes: rates.rdma_writes,
            calls_in_progress: c.calls_in_progress, credits_granted: c.credits_granted, errors: r.errors + Math.round(rates.errors * s.seconds),
          });
        } else Object.assign(r, idle);
        r.line.add(r.calls);
      }
      sort();
    },
    close() {
      resized.disconnect();
      clearTimeout(sorting);
      cancelAnimationFrame(drawing);
    },
  };
}

const collator = new Intl.Collator("en", { numeric: true });
const compare = collator.compare;
