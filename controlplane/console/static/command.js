// What is shown and done here, as a command for a terminal.
import { say } from "./confirm.js";
import { h } from "./dom.js";

// command joins words, quoted for a shell where they need it.
export const command = (...words) => ["rdmactl", ...words.map((w) => (/^[\w.,:=/@%+-]+$/.test(w) ? w : `'${w.replaceAll("'", "'\\''")}'`))].join(" ");

// copyable shows a command with a button that copies it. text may be a function
// that gives the command of the moment.
export function copyable(text) {
  const current = () => (typeof text === "function" ? text() : text);
  const code = h("code", {}, current());
  const button = h("button", {
    type: "button", class: "copy", "aria-label": "Copy as rdmactl command", title: "Copy as rdmactl command",
    click: () => copy(current()),
  }, "Copy");
  const whole = h("span", { class: "command" }, code, " ", button);
  whole.update = () => { code.textContent = current(); };
  return whole;
}

async function copy(text) {
  try {
    await navigator.clipboard.writeText(text);
    say(`Copied: ${text}`);
  } catch {
    say(`The browser does not let this page copy. The command is: ${text}`);
  }
}
