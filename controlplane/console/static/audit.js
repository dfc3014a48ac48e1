import { pages } from "./api.js";
import { command, copyable } from "./command.js";
import { h, table, when, zone } from "./dom.js";

const pageSize = 100;

// audit shows who changed what, or tried to. It is for admins. changed shows
// everything anew.
export function audit({ query }, role, changed) {
  const actor = query.get("actor") ?? "", since = query.get("since") ?? "";
  const filter = { actor, ...(since && { since }) };
  let shown = 1;
  return {
    async load() {
      if (role !== "admin") return null;
      return pages("AuditService/ListAudit", "entries", { ...filter, page_size: pageSize }, shown);
    },
    show(place, data) {
      if (!data) {
        place.replaceChildren(h("h1", {}, "Audit log"), h("p", {}, "Only admins see the audit log. An admin can give you this role in control.roles."));
        return;
      }
      const older = () => {
        shown++;
        return changed();
      };
      place.replaceChildren(
        h("h1", {}, "Audit log"),
        chooser(actor, since, changed),
        entriesTable(data.items, actor || since),
        h("p", {}, data.more && h("button", { click: older }, "Show older entries")),
        h("p", {}, "In a terminal: ", copyable(command("audit", ...(actor ? ["--actor", actor] : []), ...(since ? ["--since", since] : [])))),
      );
    },
  };
}

// chooser has the filter. Its time is one of the browser's time zone.
function chooser(actor, since, changed) {
  const by = h("input", { id: "filter", value: actor, autocomplete: "off" });
  const from = h("input", { id: "since", type: "datetime-local", value: since && local(new Date(since)) });
  const choose = (e) => {
    e.preventDefault();
    const next = new URLSearchParams();
    if (by.value.trim()) next.set("actor", by.value.trim());
    if (from.value) next.set("since", new Date(from.value).toISOString());
    const address = `#/audit?${next}`;
    if (location.hash === address) changed();
    else location.hash = address;
  };
  return h("form", { class: "bar", submit: choose },
    h("label", { for: "filter" }, "Client "), by, h("label", { for: "since" }, `From (${zone}) `), from,
    h("button", {}, "Show"), h("a", { href: "#/audit" }, "Show all"));
}

// local is a time as an input takes it.
const local = (t) => new Date(t - 60000 * t.getTimezoneOffset()).toISOString().slice(0, 16);

const entriesTable = (entries, filtered) => table(`${entries.length} entries, newest first`, [
  { name: `Time (${zone})`, cell: (e) => when(e.time) },
  { name: "Client", cell: (e) => `${e.actor}, ${e.role.replace("ROLE_", "").toLowerCase()}` },
  { name: "From", cell: (e) => e.origin },
  { name: "Action", cell: (e) => e.action.replace("rdmad.v1.", "") },
  { name: "Outcome", cell: (e) => h("span", { class: e.outcome === "OK" ? "good" : "bad" }, e.reason ? `${e.outcome}: ${e.reason}` : e.outcome) },
  { name: "Change", cell: change },
], entries, filtered ? "No entry matches. Choose an earlier time, or another client." : "No entries yet. rdmad records every request that would change something.");

function change(e) {
  const changes = e.before !== e.after && h("p", {}, h("del", {}, e.before || "nothing"), " → ", h("ins", {}, e.after || "nothing"), e.revision > 0 && ` (revision ${e.revision})`);
  return h("div", {}, changes, e.request && h("details", {}, h("summary", {}, "Request"), h("code", {}, e.request)));
}
