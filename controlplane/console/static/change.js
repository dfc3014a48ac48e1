import { call } from "./api.js";
import { command } from "./command.js";
import { ask, windowField } from "./dialog.js";
import { h } from "./dom.js";

// change asks for another value of a setting. now is the answer of GetSettings;
// changed shows everything anew.
export async function change(now, value, changed) {
  const about = await call("SettingsService/ExplainSetting", { key: value.key, scope: now.scope });
  const [group, leaf] = value.key.split(".");
  const old = now.settings[group][leaf];
  const field = typeof old === "number"
    ? h("input", { name: "value", value: value.value, inputmode: "numeric", pattern: "[0-9]+", required: true })
    : h("select", { name: "value" }, about.allowed.split(", ").map((o) => h("option", { value: o, selected: o === value.value }, o)));
  const inherit = h("input", { type: "checkbox", name: "inherit", change: () => { field.disabled = inherit.checked; } });
  const fields = { within: windowField(), comment: h("input", { name: "comment", maxlength: 60, autocomplete: "off" }) };
  await ask({
    title: `Change ${value.key} at ${now.scope}`,
    about: [h("p", {}, about.summary), h("p", { class: "quiet" }, `${about.takes_effect ? `In force: ${about.takes_effect}. ` : ""}Takes: ${about.allowed}.`)],
    fields: [
      h("label", {}, "Value", field),
      h("label", {}, inherit, " Use the value that the scope inherits"),
      h("label", {}, "Then", fields.within),
      h("label", {}, "Comment", fields.comment),
    ],
    command: () => setCommand([`${value.key}=${inherit.checked ? "unset" : field.value}`], now, fields),
    ...requests(now, fields, () => (inherit.checked ? { unset: [value.key] } : { settings: { [group]: typed(leaf, old, field.value) } })),
    done: changed,
  });
}

// applyAdvice asks whether to make a change that rdmad advises.
export function applyAdvice(now, advice, changed) {
  const fields = { within: windowField(), comment: h("input", { name: "comment", maxlength: 60, autocomplete: "off" }) };
  ask({
    title: `Set ${advice.assignments.join(" ")} at ${now.scope}`,
    about: [h("p", {}, `${advice.reason}.`)],
    fields: [h("label", {}, "Then", fields.within), h("label", {}, "Comment", fields.comment)],
    command: () => setCommand(advice.assignments, now, fields),
    ...requests(now, fields, () => ({ settings: given(advice.settings) })),
    done: changed,
  });
}

// requests look at a change and make it. what gives the part that is changed.
function requests(now, { within, comment }, what) {
  const request = () => ({
    scope: now.scope, expected_revision: now.revision, comment: comment.value,
    ...(within.value && { confirm_within: within.value }), ...what(),
  });
  return {
    preview: () => call("SettingsService/SetSettings", { ...request(), dry_run: true }),
    apply: () => call("SettingsService/SetSettings", request()),
  };
}

const setCommand = (assignments, now, { within, comment }) => command("settings", "set", ...assignments, "--scope", now.scope,
  ...(within.value ? ["--confirm-within", within.value] : []), ...(comment.value ? ["--comment", comment.value] : []));

// given leaves out what a message does not have: rdmad's answers have null there.
const given = (message) => Object.fromEntries(Object.entries(message).filter(([, v]) => v !== null)
  .map(([k, v]) => [k, typeof v === "object" ? given(v) : v]));

// typed is a value's text as the kind of the value now: a number, a switch, with
// further choices in fields beside it, or a choice.
function typed(leaf, now, text) {
  if (typeof now === "number") return { [leaf]: Number(text) };
  if (typeof now === "string") return { [leaf]: text.toUpperCase() };
  const further = text !== "on" && text !== "off";
  return further ? { [leaf]: true, [`${leaf}_${text}`]: true } : { [leaf]: text === "on" };
}
