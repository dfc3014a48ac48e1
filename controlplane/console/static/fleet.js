import { ApiError, all, call, pages } from "./api.js";
import { command, copyable } from "./command.js";
import { h, number, table, when, zone } from "./dom.js";
import { rollout, rolloutsTable } from "./rollouts.js";

const colours = { OK: "good", DEGRADED: "warn", UNKNOWN: "warn", FAILED: "bad" };

// hasFleet says whether rdmad is in a fleet.
export async function hasFleet() {
  try {
    await call("FleetService/ListPolicies");
  } catch (problem) {
    return !(problem instanceof ApiError) || problem.code !== "failed_precondition";
  }
  return true;
}

// fleet shows the nodes by their labels, rollouts and policies; or one node, or one
// rollout. changed shows everything anew.
export function fleet({ rest, query }, mayChange, changed) {
  const by = query.get("by") ?? "";
  return {
    every: 5000,
    async load() {
      try {
        const [nodes, policies, rollouts] = await Promise.all([
          pages("FleetService/ListNodes", "nodes"), all("FleetService/ListPolicies", "policies"), all("FleetService/ListRollouts", "rollouts"),
        ]);
        return { nodes: nodes.items, problems: nodes.first.problems, policies, rollouts };
      } catch (problem) {
        if (problem.code !== "unavailable") throw problem;
        return { away: problem.message }; // etcd, not rdmad
      }
    },
    show(place, { away, nodes, problems, policies, rollouts }) {
      if (away) {
        place.replaceChildren(h("h1", {}, "Fleet"), h("p", { class: "bad", role: "alert" }, away), h("p", {}, "rdmad serves without etcd, with the settings that it has. The console tries again by itself."));
        return;
      }
      const [kind, id] = rest.split("/");
      const back = h("p", {}, h("a", { href: "#/fleet" }, "Fleet"));
      let shown;
      if (kind === "rollouts" && id) shown = [back, ...rollout(decodeURIComponent(id), rollouts, mayChange, changed)];
      else if (rest) shown = [back, ...node(decodeURIComponent(rest), nodes)];
      else shown = overview(by, nodes, problems, policies, rollouts);
      place.replaceChildren(h("h1", {}, "Fleet"), ...shown);
    },
  };
}

function overview(by, nodes, problems, policies, rollouts) {
  const count = (what) => number(nodes.filter(what).length);
  const figures = [
    ["Nodes", count(() => true)], ["Down", count((n) => n.state !== "UP")],
    ["Not healthy", count((n) => !n.healthy)], ["With drift", count((n) => n.drift)],
  ];
  return [
    h("dl", { class: "totals" }, figures.map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value)))),
    problems.length > 0 ? h("ul", { class: "bad" }, problems.map((p) => h("li", {}, p))) : "",
    h("h2", {}, "Nodes"),
    grouping(by, nodes),
    ...groups(by, nodes).map(([title, of]) => nodesTable(title, of)),
    h("p", {}, "In a terminal: ", copyable(command("fleet", "nodes"))),
    h("h2", {}, "Rollouts"),
    rolloutsTable(rollouts),
    h("p", {}, "In a terminal: ", copyable(command("fleet", "rollouts"))),
    h("h2", {}, "Policies"),
    policiesTable(policies),
    h("p", {}, "In a terminal: ", copyable(command("fleet", "policies"))),
  ];
}

// grouping chooses the label whose values divide the nodes.
function grouping(by, nodes) {
  const labels = [...new Set(nodes.flatMap((n) => Object.keys(n.labels)))].sort();
  const choose = (e) => { location.hash = e.target.value ? `#/fleet?${new URLSearchParams({ by: e.target.value })}` : "#/fleet"; };
  return h("p", { class: "bar" }, h("label", { for: "by" }, "Group by label "),
    h("select", { id: "by", change: choose }, ["", ...labels].map((l) => h("option", { value: l, selected: l === by }, l || "none"))));
}

function groups(by, nodes) {
  if (!by) return [["Nodes of the fleet", nodes]];
  const title = (n) => (by in n.labels ? `${by}=${n.labels[by]}` : `without ${by}`);
  return Object.entries(Object.groupBy(nodes, title)).sort(([a], [b]) => (a < b ? -1 : 1));
}

const labelText = (labels) => Object.entries(labels).sort().map(([k, v]) => `${k}=${v}`).join(", ");
const coloured = (text, good, bad = "bad") => h("span", { class: good ? "good" : bad }, text);

const nodesTable = (title, nodes) => table(`${title}: ${nodes.length}`, [
  { name: "Name", cell: (n) => h("a", { href: `#/fleet/${encodeURIComponent(n.name)}` }, n.name) },
  { name: "State", cell: (n) => coloured(n.state, n.state === "UP") },
  { name: "Healthy", cell: (n) => coloured(n.healthy ? "yes" : "no", n.healthy) },
  { name: "Drift", cell: (n) => coloured(n.drift ? "yes" : "no", !n.drift, "warn") },
  { name: "Policies", cell: (n) => n.policies.join(", ") },
  { name: "Assigned", number: true, cell: (n) => number(n.assigned_revision) },
  { name: "Applied", number: true, cell: (n) => number(n.applied_revision) },
  { name: "Version", cell: (n) => n.version },
  { name: "Labels", cell: (n) => labelText(n.labels) },
], nodes, "No node yet. A rdmad whose configuration has the section fleet joins when it starts.");

const policiesTable = (policies) => table("The newest revision of each policy", [
  { name: "Policy", cell: (p) => `${p.name}@${p.revision}` },
  { name: "Selects", cell: (p) => p.selector.join(", ") || "all nodes" },
  { name: "Priority", number: true, cell: (p) => number(p.priority) },
  { name: "Settings", cell: (p) => h("ul", {}, p.scopes.flatMap((s) => pairs(s.settings).map((text) => h("li", {}, `${text} at ${s.scope}`)))) },
  { name: "By", cell: (p) => p.author },
  { name: `Time (${zone})`, cell: (p) => p.time && when(p.time) },
  { name: "Comment", cell: (p) => p.comment },
], policies, "No policy yet. rdmactl fleet apply -f FILE makes one.");

// pairs are the settings of a message, as KEY=VALUE.
const pairs = (settings) => Object.entries(settings ?? {}).flatMap(([group, values]) => Object.entries(values ?? {})
  .filter(([, v]) => v !== null).map(([leaf, v]) => `${group}.${leaf}=${{ true: "on", false: "off" }[v] ?? String(v).toLowerCase()}`));

function node(name, nodes) {
  const n = nodes.find((one) => one.name === name);
  if (!n) return [h("p", { class: "bad" }, `The fleet has no node ${name}.`)];
  const s = n.status;
  const facts = [
    ["State", coloured(n.state, n.state === "UP")], ["Labels", labelText(n.labels) || "none"], ["Version", n.version],
    ["Policies", n.policies.join(", ") || "none"], ["Assigned revision", number(n.assigned_revision)], ["Applied revision", number(n.applied_revision)],
    ...(s ? [["Control plane", s.control_address], ["Last report", when(s.time)], ["Connections", outcomesText(s.outcomes)]] : [["Last report", "none"]]),
  ];
  return [
    h("h2", {}, name),
    h("dl", { class: "totals facts" }, facts.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))),
    s?.refused ? h("p", { class: "bad" }, `It refuses the newest assignment: ${s.refused}`) : "",
    h("h3", {}, "Drift"),
    s?.pins.length > 0
      ? h("ul", {}, s.pins.map((pin) => h("li", {}, pin)))
      : h("p", { class: "quiet" }, n.drift ? "The assignment in force is not the newest one." : "None: it has the settings of its policies."),
    h("h3", {}, "Conditions"),
    table("Not OK, by the last report", [
      { name: "Status", cell: (c) => h("strong", { class: colours[c.status] }, c.status) },
      { name: "What", cell: (c) => `${c.kind} ${c.name}` },
      { name: "Message", cell: (c) => c.message || c.reason },
      { name: "What to do", cell: (c) => c.remedy },
      { name: `Since (${zone})`, cell: (c) => when(c.since) },
    ], s?.conditions ?? [], s ? "All conditions of the last report are OK." : "There is no report."),
    h("p", {}, "In a terminal: ", copyable(command("fleet", "show", name))),
  ];
}

const outcomesText = (o) => (o ? `${number(o.applied)} applied, ${number(o.pending_reconnect)} after a reconnect, ${number(o.unsupported)} unsupported` : "none");
