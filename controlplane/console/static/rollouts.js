import { call } from "./api.js";
import { command, copyable } from "./command.js";
import { sure } from "./dialog.js";
import { duration, h, table, when, zone } from "./dom.js";

const colours = {
  RUNNING: "good", DONE: "good", BAKING: "good", APPLYING: "good",
  PAUSED: "warn", TAKING_BACK: "warn", ABORTED: "warn", HALTED: "bad", ROLLED_BACK: "bad", TAKEN_BACK: "bad",
};
const coloured = (state) => h("strong", { class: colours[state] ?? "quiet" }, state);

// rolloutsTable shows rollouts, each with a link to its waves.
export const rolloutsTable = (rollouts) => table("Of each policy the newest rollout first", [
  { name: "Rollout", cell: (r) => h("a", { href: `#/fleet/rollouts/${encodeURIComponent(r.id)}` }, r.id) },
  { name: "State", cell: (r) => coloured(r.state) },
  { name: "Waves", cell: (r) => `${r.waves.filter((w) => w.state === "DONE").length} of ${r.waves.length} done` },
  { name: "Reason", cell: (r) => r.reason },
  { name: "By", cell: (r) => r.author },
  { name: `Began (${zone})`, cell: (r) => r.began && when(r.began) },
], rollouts, "No rollout yet. rdmactl fleet apply -f FILE begins one.");

// rollout shows the waves and gates of one rollout. A client that may change it has
// buttons. changed shows everything anew.
export function rollout(id, rollouts, mayChange, changed) {
  const r = rollouts.find((one) => one.id === id);
  if (!r) return [h("p", { class: "bad" }, `The fleet has no rollout ${id}.`)];
  return [
    h("h2", {}, `Rollout ${r.id}`),
    h("p", {}, coloured(r.state), r.reason && `: ${r.reason}`),
    h("dl", { class: "totals facts" }, [
      ["By", r.author], ["Began", r.began ? when(r.began) : "not known"], ["Ended", r.ended ? when(r.ended) : "not yet"],
      ["Before", r.previous_revision ? `${r.policy}@${r.previous_revision}` : "no revision"],
      ["Gates", r.plan ? gates(r.plan) : "none: all nodes got it at once"],
    ].map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value)))),
    table("Waves, in their order", [
      { name: "Wave", number: true, cell: (w) => r.waves.indexOf(w) + 1 },
      { name: "State", cell: (w) => coloured(w.state) },
      { name: "Nodes", cell: (w) => h("ul", {}, w.nodes.map((n) => h("li", {}, h("a", { href: `#/fleet/${encodeURIComponent(n)}` }, n)))) },
      { name: "Reason", cell: (w) => w.reason },
      { name: `Since (${zone})`, cell: (w) => w.since && when(w.since) },
    ], r.waves, "It has no waves: the policy selects no node."),
    actions(r, mayChange, changed),
  ];
}

// gates are what halts a rollout.
function gates({ bake, apply_within, ignore_conditions, max_errors_per_second, max_p99_ratio, max_unsupported, max_lost }) {
  const seconds = (d, otherwise) => duration(d ? parseFloat(d) : otherwise);
  return h("ul", {}, [
    `a node that does not apply it within ${seconds(apply_within, 60)}`,
    !ignore_conditions && "a new condition that is not OK",
    `more than ${max_errors_per_second ?? 1} errors per second above those of before`,
    max_p99_ratio !== 0 && `a p99 of more than ${max_p99_ratio ?? 2} times that of before`,
    `more than ${max_unsupported} connections with the outcome UNSUPPORTED`,
    `more than ${max_lost} lost nodes`,
  ].filter(Boolean).map((text) => h("li", {}, text)), h("li", {}, `watched for ${seconds(bake, 300)} in each wave`));
}

const verbs = { Pause: ["RUNNING"], Resume: ["PAUSED"], Abort: ["RUNNING", "PAUSED"] };

// actions are what may be done with a rollout in its state.
function actions(r, mayChange, changed) {
  const now = mayChange ? Object.keys(verbs).filter((verb) => verbs[verb].includes(r.state)) : [];
  return h("div", {}, now.map((verb) => action(verb, r, changed)), h("p", {}, "In a terminal: ", copyable(command("fleet", "rollouts", "show", r.id))));
}

// action is a button with its command. It asks before it aborts.
function action(verb, r, changed) {
  const title = `${verb} the rollout`, line = command("fleet", "rollouts", verb.toLowerCase(), r.id);
  const act = async () => {
    await call(`FleetService/${verb}Rollout`, { id: r.id });
    await changed();
  };
  const ask = () => sure({ title: `Abort the rollout ${r.id}`, button: "Abort", about: "Its nodes take the change back. An aborted rollout cannot go on.", command: line, act });
  return h("p", { class: "bar" }, h("button", { click: verb === "Abort" ? ask : act }, title), copyable(line));
}
