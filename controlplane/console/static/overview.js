import { all, call } from "./api.js";
import { Samples } from "./live.js";
import { plots } from "./plot.js";
import { duration, h, number, table, when } from "./dom.js";

const colours = { OK: "good", DEGRADED: "warn", UNKNOWN: "warn", FAILED: "bad" };

const severity = ["FAILED", "DEGRADED", "UNKNOWN"];

// listed are the kinds of conditions whose things the lists have.
const listed = ["listener", "service", "connector", "device"];

// history is what all connections together did while this page was open.
const history = new Samples(8);

// sampled adds a sample to the history.
export function sampled(s) {
  const t = s.total;
  history.add(s, [
    t.calls, t.bytes_received / 1e6, t.bytes_sent / 1e6, t.errors,
    t.calls ? s.service_time_us_p50 : null, t.calls ? s.service_time_us_p99 : null,
    t.calls ? t.rdma_reads / t.calls : null, t.calls ? t.rdma_writes / t.calls : null,
  ]);
}

const figures = [
  ["Calls", "per second", [["all", "accent"]]],
  ["Data", "MB/s", [["in", "good"], ["out", "accent"]]],
  ["Errors", "per second", [["all", "bad"]]],
  ["Time in the service", "µs", [["p50", "accent"], ["p99", "warn"]]],
  ["RDMA operations", "per call", [["Reads", "good"], ["Writes", "accent"]]],
];

// overview shows what is well and what is not, what happens now, and what rdmad
// serves. changed shows everything anew.
export function overview(changed) {
  const live = plots(history, figures);
  const top = h("div"), wrong = h("div", {}, h("p", { class: "quiet" }, "Loading …")), lists = h("div");
  const known = new Map(); // conditions by kind and name
  let drawing = 0, stale = false;

  // condition is one of the stream: all that there are, then what changes. Many may come
  // at once.
  function condition({ condition: c, removed }) {
    if (removed) known.delete(`${c.kind} ${c.name}`);
    else known.set(`${c.kind} ${c.name}`, c);
    stale ||= listed.includes(c.kind);
    soon();
  }

  function soon() {
    drawing ||= setTimeout(() => {
      drawing = 0;
      if (known.size > 0) wrong.replaceChildren(conditions([...known.values()]));
      if (stale) changed();
      stale = false;
    }, 100);
  }

  return {
    every: 5000,
    streams: [{ method: "StatusService/WatchConditions", request: {}, began: () => { known.clear(); soon(); }, message: condition }],
    async load() {
      const [listeners, services, connectors] = await Promise.all([
        all("ListenerService/ListListeners", "listeners"),
        call("ListenerService/ListServices"),
        call("ConnectorService/ListConnectors"),
      ]);
      return { listeners, services: services.services, connectors: connectors.connectors };
    },
    show(place, data, status) {
      if (!top.isConnected) place.replaceChildren(h("h1", {}, "Overview"), top, h("h2", {}, "Conditions"), wrong, h("h2", {}, "Now"), live.place, lists);
      top.replaceChildren(totals(status));
      lists.replaceChildren(
        h("h2", {}, "Listeners"), listeners(data.listeners),
        h("h2", {}, "Services"), services(data.services),
        h("h2", {}, "Connectors"), connectors(data.connectors),
        h("h2", {}, "Providers"), providers(status.providers),
      );
      live.draw();
    },
    sample: () => live.draw(),
    close() {
      clearTimeout(drawing);
      live.close();
    },
  };
}

function totals(status) {
  const items = [
    ["Connections", number(status.connections)],
    ["Calls since the start", number(status.calls)],
    ["Errors since the start", number(status.errors)],
    ["Settings revision", number(status.revision)],
    ["Up for", duration(status.uptime_seconds)],
    ["Version", status.version],
  ];
  return h("dl", { class: "totals" }, items.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}

function conditions(all) {
  const wrong = all.filter((c) => c.status !== "OK").sort((a, b) => severity.indexOf(a.status) - severity.indexOf(b.status));
  if (wrong.length === 0) return h("p", { class: "good" }, `All ${all.length} conditions are OK.`);
  return table(`${wrong.length} of ${all.length} are not OK`, [
    { name: "Status", cell: (c) => h("strong", { class: colours[c.status] }, c.status) },
    { name: "What", cell: (c) => `${c.kind} ${c.name}` },
    { name: "Message", cell: (c) => c.message || c.reason },
    { name: "What to do", cell: (c) => c.remedy },
    { name: "Since", cell: (c) => when(c.since) },
  ], wrong);
}

const listeners = (rows) => table("Addresses that accept RPC-over-RDMA", [
  { name: "Name", cell: (l) => l.name },
  { name: "Address", cell: (l) => l.address },
  { name: "Provider", cell: (l) => l.provider },
  { name: "Service", cell: (l) => l.service },
  { name: "Connections", number: true, cell: (l) => number(l.connections) },
  { name: "Accepted", number: true, cell: (l) => number(l.accepted) },
  { name: "Refused", number: true, cell: (l) => number(l.refused) },
  { name: "Failure", cell: (l) => h("span", { class: "bad" }, l.failure) },
], rows, "No listener. rdmactl listeners add makes one.");

const services = (rows) => table("What answers calls", [
  { name: "Name", cell: (s) => s.name },
  { name: "Kind", cell: (s) => s.kind },
  { name: "Listeners", cell: (s) => s.listeners.join(", ") },
  { name: "TCP address", cell: (s) => s.tcp_address },
  { name: "Failure", cell: (s) => h("span", { class: "bad" }, s.failure) },
], rows, "No service. rdmactl services add makes one.");

const connectors = (rows) => table("Addresses that forward ONC RPC on TCP to an RDMA target", [
  { name: "Name", cell: (c) => c.name },
  { name: "Address", cell: (c) => c.address },
  { name: "Target", cell: (c) => c.target },
  { name: "State", cell: (c) => c.state },
  { name: "Connections", number: true, cell: (c) => number(c.connections) },
  { name: "Calls", number: true, cell: (c) => number(c.calls) },
  { name: "Failed", number: true, cell: (c) => number(c.failed) },
], rows, "No connector.");

const providers = (rows) => table("What makes connections; a listener names one", [
  { name: "Name", cell: (p) => p.name },
  { name: "In this build", cell: (p) => (p.built_in ? "yes" : "no") },
  { name: "Note", cell: (p) => p.note },
], rows, "No provider.");
