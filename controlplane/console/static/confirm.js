import { call } from "./api.js";
import { command, copyable } from "./command.js";
import { duration, h } from "./dom.js";

const bar = document.getElementById("confirm");
const notice = document.getElementById("notice");

let waiting = null; // {revision, deadline, fleet}: the change that waits for its confirmation, by the fleet's controller if fleet
let ahead = 0; // of this browser's clock over rdmad's, in ms
let ticking = null;

// pending shows the countdown of a change that waits to be confirmed, and says how
// it ended. changed shows everything anew; a client that may decide has buttons.
export function pending(status, mayDecide, changed) {
  ahead = Date.now() - (Date.parse(status.started) + 1000 * status.uptime_seconds);
  const before = waiting;
  waiting = status.unconfirmed_revision ? { revision: status.unconfirmed_revision, deadline: Date.parse(status.confirm_deadline), fleet: status.unconfirmed_by_fleet } : null;
  if (before && before.revision !== waiting?.revision) ended(before.revision);
  if (before?.revision !== waiting?.revision || bar.hidden) show(mayDecide, changed);
  tick();
}

// begun is pending for a change of this page: rdmad may take it back before the
// page asks for its status.
export function begun(answer) {
  if (answer.confirm_deadline) waiting ??= { revision: answer.revision, deadline: Date.parse(answer.confirm_deadline) };
}

function show(mayDecide, changed) {
  bar.hidden = !waiting;
  if (!waiting) return;
  const { revision } = waiting, before = revision - 1;
  const decide = (method, request) => async () => {
    await call(method, request);
    await changed();
  };
  notice.hidden = true;
  bar.replaceChildren(...[
    h("span", {}, waiting.fleet ? `Revision ${revision} waits for the fleet's controller. ` : `Revision ${revision} waits for a confirmation. `), h("span", { role: "timer" }),
    mayDecide && !waiting.fleet && h("p", { class: "bar" },
      h("button", { class: "main", click: decide("SettingsService/ConfirmSettings", { revision }) }, "Keep"), copyable(command("settings", "confirm", String(revision)))),
    mayDecide && h("p", { class: "bar" },
      h("button", { click: decide("SettingsService/RollbackSettings", { revision: before, expected_revision: revision }) }, "Take back"),
      copyable(command("settings", "rollback", String(before), "--revision", String(revision)))),
  ].filter(Boolean));
}

function tick() {
  clearTimeout(ticking);
  if (!waiting || bar.hidden) return;
  const rest = Math.max(0, waiting.deadline + ahead - Date.now());
  bar.querySelector("[role=timer]").textContent = `rdmad takes it back in ${duration(rest / 1000)}.`;
  ticking = setTimeout(tick, rest % 1000 || 1000);
}

// ended says how a change ended that waited.
async function ended(revision) {
  const { revisions } = await call("SettingsService/ListRevisions", { page_size: 20 });
  const state = revisions.find((r) => r.revision === revision)?.state;
  const after = revisions.find((r) => (r.kind === "ROLLBACK" || r.kind === "EXPIRED") && r.restored < revision && r.revision > revision);
  let text = `Revision ${revision} is kept.`;
  if (state === "UNDONE") {
    text = after?.kind === "EXPIRED" || !after
      ? `Revision ${revision} was not confirmed in time. rdmad took it back: the settings are as they were before.`
      : `Revision ${revision} is taken back.`;
  }
  say(text);
}

// say shows a message until it is dismissed. Screen readers read it.
export function say(text) {
  notice.hidden = false;
  notice.replaceChildren(h("span", {}, text), " ", h("button", { click: () => { notice.hidden = true; } }, "Dismiss"));
}
