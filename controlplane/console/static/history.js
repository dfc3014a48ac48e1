import { call, pages } from "./api.js";
import { command } from "./command.js";
import { ask, changed as change } from "./dialog.js";
import { h, number, table, when, zone } from "./dom.js";

const pageSize = 50;

// History is the settings' revisions, the newest first, with a button to go back to
// each. changed shows everything anew.
export class History {
  #pages = 1;
  #mayChange;
  #changed;

  constructor(mayChange, changed) {
    this.#mayChange = mayChange;
    this.#changed = changed;
  }

  load() {
    return pages("SettingsService/ListRevisions", "revisions", { page_size: pageSize }, this.#pages);
  }

  show({ items: revisions, more }) {
    const columns = [
      { name: "Revision", number: true, cell: (r) => number(r.revision) },
      { name: `Time (${zone})`, cell: (r) => when(r.time) },
      { name: "By", cell: (r) => r.actor },
      { name: "Kind", cell: (r) => (r.state === "KEPT" ? r.kind : `${r.kind}, ${r.state}`) },
      { name: "Changes", cell: (r) => h("ul", {}, r.changes.map((c) => h("li", {}, change(c)))) },
      { name: "Comment", cell: (r) => r.comment },
    ];
    if (this.#mayChange) {
      columns.push({
        name: "Action",
        cell: (r) => r.revision !== revisions[0].revision && h("button", {
          "aria-label": `Roll back to revision ${r.revision}`, click: () => this.#rollback(r.revision, revisions[0].revision),
        }, "Roll back to this"),
      });
    }
    const older = async () => {
      this.#pages++;
      await this.#changed();
    };
    return h("section", { "aria-labelledby": "history" }, h("h2", { id: "history" }, "History"),
      table(`The newest ${revisions.length} revisions, newest first`, columns, revisions, "No changes yet."),
      more && h("p", {}, h("button", { click: older }, "Show older revisions")));
  }

  #rollback(revision, expected) {
    const request = { revision, expected_revision: expected };
    return ask({
      title: `Roll back to revision ${revision}`,
      about: [h("p", {}, "All settings become as they were after that revision. It makes a new revision, which can be rolled back too.")],
      fields: [],
      command: () => command("settings", "rollback", String(revision)),
      preview: () => call("SettingsService/RollbackSettings", { ...request, dry_run: true }),
      apply: () => call("SettingsService/RollbackSettings", request),
      done: this.#changed,
    });
  }
}
