import { copyable } from "./command.js";
import { begun } from "./confirm.js";
import { h, table } from "./dom.js";

const dialog = document.getElementById("dialog");

// ask has the user look at what a change would do before it is made. preview
// and apply are requests; what was looked at is what is applied.
export function ask({ title, about, fields, command, preview, apply, done }) {
  const outcome = h("div", { id: "outcome", role: "status" });
  const applyButton = h("button", { type: "button", class: "main", disabled: true, click: () => run(apply, true) }, "Apply");
  const previewButton = h("button", { type: "submit" }, "Show the effects");
  const terminal = copyable(command);
  const form = h("form", {
    submit: (e) => { e.preventDefault(); run(preview, false); },
    input: stale, change: stale,
  }, fields, h("p", {}, "In a terminal: ", terminal), outcome,
  h("p", { class: "bar" }, previewButton, applyButton, h("button", { type: "button", click: () => dialog.close() }, "Cancel")));

  // stale asks for another look: the fields have changed.
  function stale() {
    applyButton.disabled = true;
    outcome.replaceChildren();
    invalid(false);
    terminal.update();
  }

  // invalid marks the value's field as the one to mend.
  function invalid(is) {
    const field = form.elements.value;
    if (!field) return;
    field.setAttribute("aria-describedby", "outcome");
    if (is) field.setAttribute("aria-invalid", "true");
    else field.removeAttribute("aria-invalid");
  }

  async function run(request, final) {
    applyButton.disabled = previewButton.disabled = true;
    outcome.replaceChildren(h("p", { class: "quiet" }, "Waiting for rdmad …"));
    try {
      const answer = await request();
      if (final) {
        begun(answer);
        dialog.close();
        await done();
        return;
      }
      outcome.replaceChildren(...effects(answer));
      applyButton.disabled = answer.unchanged === true;
    } catch (problem) {
      outcome.replaceChildren(h("p", { class: "bad" }, problem.message));
      invalid(problem.code === "invalid_argument");
    } finally {
      previewButton.disabled = false;
    }
  }

  dialog.replaceChildren(h("h2", { id: "dialog-title" }, title), ...about, form);
  stale();
  dialog.showModal();
}

// sure asks before act does what cannot be taken back.
export function sure({ title, button, about, command, act }) {
  const problem = h("p", { class: "bad", role: "status" });
  const yes = h("button", {
    type: "button", class: "main",
    click: async () => {
      yes.disabled = true;
      try {
        await act();
        dialog.close();
      } catch (e) {
        problem.textContent = e.message;
        yes.disabled = false;
      }
    },
  }, button);
  dialog.replaceChildren(h("h2", { id: "dialog-title" }, title), h("p", {}, about), h("p", {}, "In a terminal: ", copyable(command)), problem,
    h("p", {}, yes, " ", h("button", { type: "button", click: () => dialog.close() }, "Cancel")));
  dialog.showModal();
}

// window is the field for a confirm window.
export const windowField = () => h("select", { name: "within" },
  [["", "Keep it"], ["30s", "Take it back after 30 s, unless confirmed"], ["60s", "Take it back after 1 min, unless confirmed"], ["300s", "Take it back after 5 min, unless confirmed"]]
    .map(([v, text]) => h("option", { value: v }, text)));

const most = 100; // effects that are listed

const outcomes = {
  APPLIED: "would change at once",
  PENDING_RECONNECT: "would change when they connect again",
  UNSUPPORTED: "do not support it",
};

// changed is a value before and after.
export const changed = (c) => [
  h("code", {}, c.key), ` at ${c.scope}: `,
  h("del", {}, c.before || "not set"), " → ", h("ins", {}, c.after || "not set"),
];

function effects(answer) {
  if (answer.unchanged) return [h("p", {}, "Nothing would change.")];
  const out = [];
  if (answer.changes) out.push(h("ul", {}, answer.changes.map((c) => h("li", {}, changed(c)))));
  const counts = {};
  for (const e of answer.effects) counts[e.outcome] = (counts[e.outcome] ?? 0) + 1;
  const parts = Object.entries(counts).map(([k, n]) => `${n} ${outcomes[k] ?? k}`);
  out.push(h("p", {}, parts.length === 0 ? "No connection is up that this concerns. New ones would use it." : `Connections: ${parts.join(", ")}.`));
  const late = (e) => e.outcome !== "APPLIED";
  const listed = [...answer.effects.filter(late), ...answer.effects.filter((e) => !late(e))].slice(0, most);
  if (listed.length > 0) {
    out.push(table(listed.length < answer.effects.length ? `The first ${most} connections, those that would not change at once before the others` : "Effect on each connection", [
      { name: "Connection", cell: (e) => e.connection_id },
      { name: "Outcome", cell: (e) => h("span", { class: { APPLIED: "good", PENDING_RECONNECT: "warn" }[e.outcome] ?? "bad" }, e.outcome) },
      { name: "Reason", cell: (e) => e.reason },
    ], listed));
  }
  return out;
}
