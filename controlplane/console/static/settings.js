import { ApiError, all, call } from "./api.js";
import { applyAdvice, change } from "./change.js";
import { command, copyable } from "./command.js";
import { h, number, table } from "./dom.js";
import { History } from "./history.js";

// address is where a scope's settings are, and the explanation of one of them.
const address = (scope, key) => `#/settings?${new URLSearchParams({ scope, ...(key && { key }) })}`;

// settings shows the live settings of a scope with their origin, advice, and the
// history. A client that may change them has buttons. changed shows everything anew.
export function settings({ query }, mayChange, changed) {
  const scope = query.get("scope") || "global", key = query.get("key");
  const history = new History(mayChange, changed);
  return {
    async load() {
      const [scopes, past, values, advice, about] = await Promise.all([
        knownScopes(),
        history.load(),
        tried(call("SettingsService/GetSettings", { scope })),
        tried(call("TelemetryService/AdviseSettings", { scope })),
        key && tried(call("SettingsService/ExplainSetting", { scope, key })),
      ]);
      return { scopes, past, values, advice, about };
    },
    show(place, { scopes, past, values, advice, about }) {
      place.replaceChildren(
        h("h1", {}, "Settings"),
        chooser(scope, scopes),
        values instanceof ApiError
          ? h("p", { class: "bad" }, `${values.message}. Choose another scope.`)
          : h("section", { "aria-label": "Values" }, about ? explanation(about) : "", valuesTable(values), h("p", {}, "In a terminal: ", copyable(command("settings", "get", "--scope", values.scope)))),
        values instanceof ApiError ? "" : adviceOf(values, advice),
        history.show(past),
      );
    },
  };

  function valuesTable(now) {
    const columns = [
      { name: "Key", cell: (v) => h("a", { href: address(now.scope, v.key) }, h("code", {}, v.key)) },
      { name: "Value", cell: (v) => v.value },
      { name: "From", cell: (v) => [v.source, v.location].filter(Boolean).join(", ") },
      { name: "Since revision", number: true, cell: (v) => (v.revision ? number(v.revision) : "") },
    ];
    if (mayChange) columns.push({ name: "Action", cell: (v) => h("button", { "aria-label": `Change ${v.key}`, click: () => change(now, v, changed) }, "Change") });
    return table(`Values in force at ${now.scope}, revision ${now.revision}`, columns, now.values);
  }

  function adviceOf(now, advice) {
    const section = (...what) => h("section", { "aria-labelledby": "advice" }, h("h2", { id: "advice" }, "Advice"), ...what);
    if (advice instanceof ApiError) return section(h("p", { class: "bad" }, advice.message));
    const from = `from ${number(advice.calls)} calls on ${number(advice.connections)} connections`;
    if (advice.advice.length === 0) return section(h("p", { class: "quiet" }, `Nothing to advise, ${from}.`));
    const columns = [
      { name: "Change", cell: (a) => h("code", {}, a.assignments.join(" ")) },
      { name: "Reason", cell: (a) => a.reason },
      { name: "RDMA operations saved", number: true, cell: (a) => number(a.rdma_operations_saved) },
      { name: "Registrations saved", number: true, cell: (a) => number(a.registrations_saved) },
      { name: "Memory added (bytes)", number: true, cell: (a) => number(a.memory_added) },
      { name: "In force", cell: (a) => (a.outcome === "APPLIED" ? "at once" : "after a reconnect") },
    ];
    if (mayChange) columns.push({ name: "Action", cell: (a) => h("button", { "aria-label": `Apply ${a.assignments.join(" ")}`, click: () => applyAdvice(now, a, changed) }, "Apply …") });
    return section(table(`Thresholds that would have saved work, ${from}`, columns, advice.advice),
      h("p", {}, "In a terminal: ", copyable(command("settings", "advise", "--scope", now.scope))));
  }
}

// tried is an answer, or the error that rdmad answered.
const tried = (answer) => answer.catch((problem) => {
  if (problem instanceof ApiError && problem.code !== "unauthenticated") return problem;
  throw problem;
});

// knownScopes are the scopes that hold settings, and the listeners.
async function knownScopes() {
  const [listeners, held] = await Promise.all([all("ListenerService/ListListeners", "listeners"), call("SettingsService/ExportSettings")]);
  return [...new Set(["global", ...listeners.map((l) => `listener/${l.name}`), ...held.scopes.map((s) => s.scope)])];
}

function chooser(scope, scopes) {
  const input = h("input", { id: "scope", value: scope, autocomplete: "off", list: "scopes", "aria-describedby": "scope-help" });
  const choose = (e) => {
    e.preventDefault();
    location.hash = address(input.value.trim() || "global");
  };
  return h("form", { class: "bar", submit: choose }, h("label", { for: "scope" }, "Scope "), input,
    h("datalist", { id: "scopes" }, scopes.map((value) => h("option", { value }))), h("button", {}, "Show"),
    h("span", { class: "quiet", id: "scope-help" }, "global, listener/NAME, peer/CIDR or connection/ID"));
}

// explanation shows one setting, and where its value comes from.
function explanation(about) {
  if (about instanceof ApiError) return h("p", { class: "bad" }, about.message);
  return h("article", { class: "raised", "aria-labelledby": "explained" },
    h("h2", { id: "explained" }, h("code", {}, about.value.key), ` = ${about.value.value}`),
    h("p", {}, about.summary),
    h("p", {}, `Takes: ${about.allowed}. ${about.takes_effect ? `In force: ${about.takes_effect}.` : ""}`),
    table("Where a value is set; the last one wins", [
      { name: "From", cell: (v) => [v.source, v.location].filter(Boolean).join(", ") },
      { name: "Value", cell: (v) => v.value },
      { name: "Since revision", number: true, cell: (v) => (v.revision ? number(v.revision) : "") },
    ], about.candidates),
    h("p", {}, "In a terminal: ", copyable(command("settings", "set", ...about.example.split(" ")))));
}
