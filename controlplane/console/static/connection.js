import { NotReached, call } from "./api.js";
import { command, copyable } from "./command.js";
import { sure } from "./dialog.js";
import { duration, h, number, table, when } from "./dom.js";
import { Samples, follow } from "./live.js";
import { plots } from "./plot.js";
import { Sequence } from "./sequence.js";

const figures = [
  ["Calls", "per second", [["all", "accent"]]],
  ["RDMA operations", "per call", [["Reads", "good"], ["Writes", "accent"]]],
  ["Credits", "calls", [["granted", "quiet"], ["used", "accent"]]],
  ["Data", "MB/s", [["in", "good"], ["out", "accent"]]],
];

// connection shows one connection: #/connections/ID.
export function connection({ rest }, mayChange) {
  const id = decodeURIComponent(rest);
  const history = new Samples(7), live = plots(history, figures);
  const note = h("p", { class: "warn", role: "status" }), top = h("div"), below = h("div"), values = h("div"), traced = h("div");
  const scope = `connection/${id}`;
  let ended = false, asking = false, stopTrace = null;

  // ask makes a request about the connection; null if it is not up.
  async function ask(method, request) {
    try {
      return await call(method, request);
    } catch (problem) {
      if (problem.code !== "not_found") throw problem;
      ended = true;
      stopTrace?.();
      note.textContent = "This connection is not up. What is below is how it was.";
      return null;
    }
  }
  const look = () => ask("ConnectionService/GetConnection", { id });

  function build(place) {
    place.replaceChildren(
      h("p", {}, h("a", { href: "#/connections" }, "All connections")), h("h1", {}, `Connection ${id}`), note, actions(), top,
      h("h2", {}, "Now"), live.place, h("h2", {}, "Trace"), traced, below,
      h("h2", {}, "Settings"),
      h("p", { class: "bar" }, h("a", { href: `#/settings?scope=${encodeURIComponent(scope)}` }, mayChange ? "Change the settings of this connection" : "Settings view"), copyable(command("settings", "get", "--scope", scope))),
      values,
    );
  }

  function show(now) {
    if (!now) return;
    if (traced.childElementCount === 0) traced.append(...tracing(now.connection));
    top.replaceChildren(facts(now));
    below.replaceChildren(
      h("h2", {}, "Operations per call"), operations(now),
      h("h2", {}, "Sizes of messages"), sizes(now.transport),
      ...(now.characteristics ? [h("h2", {}, "Characteristics"), characteristics(now.characteristics)] : []),
    );
    live.draw();
  }

  function actions() {
    const end = (title, method, line, text, more) => h("button", { type: "button", click: () => sure({ title: `${title} this connection`, button: title, about: text, command: command("connections", ...line), act: () => call(method, { id, ...more }) }) }, title);
    return h("p", { class: "bar" },
      mayChange && end("Drain", "ConnectionService/DrainConnection", ["drain", id, "--deadline", "10s"], "rdmad finishes the calls in flight within 10 s, takes no new ones, and disconnects. The client connects again.", { deadline: "10s" }),
      mayChange && end("Close", "ConnectionService/CloseConnection", ["close", id], "rdmad disconnects at once. The client loses the replies to its calls in flight, and connects again."),
      copyable(command("connections", "show", id)));
  }

  // tracing is the trace with its buttons. It runs only when somebody starts it, and
  // pauses with the page.
  function tracing(c) {
    const own = c.client !== ""; // a connector's connection: rdmad is the client
    const sequence = new Sequence(own ? `rdmad ${c.local}` : `client ${c.peer}`, own ? `server ${c.peer}` : `rdmad ${c.local}`, (e) => (e.direction === "OUT") === own);
    const state = h("span", { class: "quiet", role: "status" });
    let dropped = 0, before = 0, seen = 0; // before: dropped in earlier streams
    const toggle = h("button", { type: "button", click: () => (stopTrace ? stopTrace() : start()) }, "Start");
    const bar = h("p", { class: "bar" }, mayChange && toggle, mayChange && h("button", { type: "button", click: () => sequence.clear() }, "Clear"),
      copyable(command("trace", "--connection", id)), state);
    if (!mayChange) state.textContent = "A trace needs the role operator.";

    function start() {
      const stop = new AbortController();
      const hidden = () => { if (document.hidden) stopTrace?.(); };
      document.addEventListener("visibilitychange", hidden);
      stopTrace = () => {
        stopTrace = null;
        stop.abort();
        document.removeEventListener("visibilitychange", hidden);
        toggle.textContent = "Continue";
        state.textContent = ended ? "The connection has ended." : "Paused.";
      };
      toggle.textContent = "Pause";
      state.textContent = "Waiting for rdmad …";
      follow("DiagnosticsService/Trace", { filter: { connection_ids: [id] } }, stop.signal, {
        began: () => {
          before = dropped;
          state.textContent = "Live. No message yet.";
        },
        message: (e) => {
          dropped = before + e.dropped;
          sequence.add(e);
          state.textContent = `Live. ${number(++seen)} events${dropped ? `; ${number(dropped)} more were too fast for this page` : ""}.`;
        },
        lost: (problem) => {
          if (problem.code === "not_found") ended = true;
          else state.textContent = problem instanceof NotReached ? "rdmad does not answer. The trace continues when it does." : problem.message;
          if (problem.code === "not_found" || problem.code === "permission_denied") stopTrace();
        },
      });
    }
    return [bar, sequence.place];
  }

  return {
    telemetry: { read_mask: "time,seconds,total,listeners,serviceTimeUsP50,serviceTimeUsP99,connections", connection_ids: [id] },
    load: async () => ({ now: await look(), all: await ask("SettingsService/GetSettings", { scope }) }),
    show(place, { now, all }) {
      if (!top.isConnected) build(place);
      show(now);
      if (all) values.replaceChildren(settings(all.values));
    },
    async sample(s) {
      const c = s.connections[0];
      if (c) {
        const r = c.rates, per = (n) => (r.calls ? n / r.calls : null);
        history.add(s, [r.calls, per(r.rdma_reads), per(r.rdma_writes), c.credits_granted, c.calls_in_progress, r.bytes_received / 1e6, r.bytes_sent / 1e6]);
      }
      if (ended || asking || !top.isConnected) return;
      asking = true;
      try {
        show(await look());
      } finally {
        asking = false;
      }
    },
    close() {
      stopTrace?.();
      live.close();
    },
  };
}

const yesNo = (b) => (b ? "yes" : "no");

function facts({ connection: c, transport: t, inline_send_held, padding, configuration }) {
  const items = [
    ["Peer", c.peer], c.client && ["TCP client", c.client], ["Address of rdmad", c.local], ["Listener", c.listener], ["Service", c.service], ["Provider", c.provider],
    ["State", c.state], ["Up since", when(c.since)], ["Idle for", duration(t.idle_seconds)],
    ["RPC-over-RDMA version", c.rpc_version], ["Extensions", c.extensions.join(", ") || "none"],
    ["Largest Send to the peer", `${number(c.inline_send)} bytes`, inline_send_held],
    ["Largest Send from the peer", `${number(c.inline_receive)} bytes`],
    ["Credits granted", number(c.credits_granted)], ["Credits used", number(c.calls_in_progress)],
    ["Remote invalidation", yesNo(c.remote_invalidation)],
    padding?.align > 0 && ["Padding", `${padding.align} bytes`],
    configuration && ["The peer's receive size", `${number(configuration.receive_size)} bytes`],
    ["Calls", number(c.calls)], ["Calls to the peer", number(c.reverse_calls)], ["Errors", number(c.errors)],
  ];
  return h("dl", { class: "totals facts" }, items.filter(Boolean).map(([name, value, why]) => h("div", {}, h("dt", {}, name), h("dd", {}, value, why && h("small", { class: "quiet" }, ` ${why}`)))));
}

function operations({ connection: c, transport: t }) {
  const rows = [
    ["Sends", c.sends], ["Receives", c.receives], ["RDMA Reads", c.rdma_reads], ["RDMA Writes", c.rdma_writes], ["Sends With Invalidate", c.sends_with_invalidate],
    ["Registrations", t.registrations], ["Local invalidations", t.local_invalidations], ["Remote invalidations", t.remote_invalidations], ["Round trips", t.round_trips],
  ];
  return table("Since the connection came up", [
    { name: "Operation", cell: ([name]) => name },
    { name: "All", number: true, cell: ([, n]) => number(n) },
    { name: "Per call", number: true, cell: ([, n]) => (c.calls ? (n / c.calls).toFixed(2) : "…") },
  ], rows);
}

// sizes is a histogram of two columns, as a table whose cells have bars.
function sizes(t) {
  const rows = new Map();
  const put = (list, key) => {
    for (const s of list) rows.set(s.from, { calls: 0, replies: 0, ...rows.get(s.from), from: s.from, to: s.to, [key]: s.count });
  };
  put(t.call_sizes, "calls");
  put(t.reply_sizes, "replies");
  const sorted = [...rows.values()].sort((a, b) => a.from - b.from);
  const all = sorted.slice(sorted.findIndex((r) => r.calls + r.replies > 0)); // most of the small sizes never occur
  const bar = (key) => {
    const most = Math.max(...all.map((r) => r[key]), 1);
    return (r) => h("span", { class: "bars" }, h("meter", { min: 0, max: most, value: r[key], "aria-hidden": "true" }), number(r[key]));
  };
  return table("RPC messages by their size, since the connection came up", [
    { name: "Bytes", number: true, cell: (r) => `${number(r.from)}–${number(r.to)}` },
    { name: "Calls", cell: bar("calls") },
    { name: "Replies", cell: bar("replies") },
  ], all, "No message yet.");
}

function characteristics({ own, peer }) {
  const rows = [
    ["Receive size, bytes", (v) => number(v.receive_size)], ["Remote invalidation", (v) => yesNo(v.remote_invalidation)], ["Calls in reverse", (v) => v.backward],
    ["Transmissions", (v) => v.rtr.join(", ")], ["Segments of receives", (v) => v.targets.map((s) => `${s.count} of ${s.length}`).join(", ")],
    ["Transmissions of a request", (v) => number(v.request_transmissions)], ["Transmissions of a reply", (v) => number(v.response_transmissions)],
  ];
  return table("As both ends announced them", [
    { name: "Characteristic", cell: ([name]) => name },
    { name: "rdmad", cell: ([, of]) => of(own) },
    { name: "Peer", cell: ([, of]) => of(peer) },
  ], rows);
}

const settings = (rows) => table("In force on this connection", [
  { name: "Key", cell: (v) => h("code", {}, v.key) },
  { name: "Value", cell: (v) => v.value },
  { name: "From", cell: (v) => [v.source, v.location].filter(Boolean).join(", ") },
], rows);
