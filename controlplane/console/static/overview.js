import { all, call } from "./api.js";
import { Samples } from "./live.js";
import { plots } from "./plot.js";
import { duration, h, number, table, when } from "./dom.js";

const colours = { OK: "good", DEGRADED: "warn", UNKNOWN: "warn", FAILED: "bad" };

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
// serves.
export function overview() {
  const live = plots(history, figures);
  const top = h("div"), lists = h("div");
  return {
    every: 5000,
    async load() {
      const [conditions, listeners, services, connectors] = await Promise.all([
        call("StatusService/ListConditions"),
        all("ListenerService/ListListeners", "listeners"),
        call("ListenerService/ListServices"),
        call("ConnectorService/ListConnectors"),
      ]);
      return { conditions, listeners, services: services.services, connectors: connectors.connectors };
    },
    show(place, data, status) {
      if (!top.isConnected) place.replaceChildren(h("h1", {}, "Overview"), top, h("h2", {}, "Now"), live.place, lists);
      top.replaceChildren(totals(status), h("h2", {}, "Conditions"), conditions(data.conditions));
      lists.replaceChildren(
        h("h2", {}, "Listeners"), listeners(data.listeners),
        h("h2", {}, "Services"), services(data.services),
        h("h2", {}, "Connectors"), connectors(data.connectors),
        h("h2", {}, "Providers"), providers(status.providers),
      );
      live.draw();
    },
    sample: () => live.draw(),
    close: () => live.close(),
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

function conditions(answer) {
  const wrong = answer.conditions.filter((c) => c.status !== "OK");
  if (wrong.length === 0) return h("p", { class: "good" }, `All ${answer.conditions.length} conditions are OK.`);
  return table(`${wrong.length} of ${answer.conditions.length} are not OK`, [
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
