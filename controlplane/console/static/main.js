import { NotReached, call, login, logout } from "./api.js";
import { command, copyable } from "./command.js";
import { clock, h } from "./dom.js";
import { pending, say } from "./confirm.js";
import { changed, follow } from "./live.js";
import { overview, sampled } from "./overview.js";
import { connections } from "./connections.js";
import { connection } from "./connection.js";
import { settings } from "./settings.js";
import { audit } from "./audit.js";
import { fleet, hasFleet } from "./fleet.js";

const main = document.getElementById("main");
const alarm = document.getElementById("alarm");
const secure = location.protocol === "https:";

let role = "", mayChange = false;
let view = null;
let heard = Date.now(), blindSince = null; // when rdmad last answered; null while it does
let routes = 0, last = "#/overview"; // the address of the view before
let refreshing = false, again = false, looking = null;
let streams = new AbortController();
let left = false; // the user has ended the session
let resuming = false;

// A view is made for an address, such as #/settings?scope=global: {rest, query} is
// what follows the view's name. It has load, which asks rdmad, and show. It may have
// every, its time between two looks in ms; telemetry, fields of the request for
// samples; sample, which takes them; revised, for a change of settings; streams of
// its own; and close.
const views = {
  overview: () => overview(renew),
  connections: (at) => (at.rest ? connection(at, mayChange) : connections(at)),
  settings: (at) => settings(at, mayChange, refresh),
  audit: (at) => audit(at, role, refresh),
  fleet: (at) => fleet(at, mayChange, refresh),
};

// where is what the address names.
function where() {
  const at = new URL(`${location.origin}/${location.hash.slice(2)}`);
  const [, name, ...rest] = at.pathname.split("/");
  return { name, rest: rest.join("/"), query: at.searchParams };
}

// refresh asks rdmad for all that is shown. Errors of the view itself are the
// caller's.
async function refresh() {
  const shown = view;
  const [status, data] = await Promise.all([call("StatusService/GetStatus"), shown.load()]);
  if (shown !== view) return; // the user has gone to another one
  seen(status);
  const giveBack = held();
  shown.show(main, data, status);
  giveBack();
}

// held returns a function that gives the focus and the scrolling back to what has
// them now, after the view was drawn anew.
function held() {
  const name = (e) => e.id || e.getAttribute("aria-label") || e.textContent;
  const same = (e) => [...main.querySelectorAll(e.tagName)].find((o) => name(o) === name(e));
  const focused = document.activeElement;
  const scrolled = [...main.querySelectorAll(".scroll")].map((e) => [e, e.scrollLeft]).filter(([, left]) => left > 0);
  return () => {
    if (!focused.isConnected) (same(focused) ?? main).focus({ preventScroll: true });
    for (const [e, left] of scrolled) if (!e.isConnected && same(e)) same(e).scrollLeft = left;
  };
}

// renew refreshes once more, now or after the refresh that runs.
async function renew() {
  again = true;
  if (refreshing) return;
  refreshing = true;
  try {
    while (again && view) {
      again = false;
      await refresh();
    }
  } catch (problem) {
    if (view) failed(problem);
  } finally {
    refreshing = false;
  }
}

const telemetry = "time,seconds,total,listeners,serviceTimeUsP50,serviceTimeUsP99";
const silence = 10000; // ms without a sample, after which rdmad counts as away

// begin shows the view, and opens its streams in place of those before. A hidden tab
// has none.
function begin() {
  streams.abort();
  streams = new AbortController();
  clearInterval(looking);
  if (!view || document.hidden) return;
  renew();
  if (view.every) looking = setInterval(renew, view.every);
  const shown = view, { signal } = streams;
  const back = () => { if (!alarm.hidden) renew(); }; // what is said of a stream that had ended is over
  follow("TelemetryService/WatchTelemetry", { read_mask: telemetry, ...shown.telemetry }, signal, {
    silence, began: back, lost: failed,
    message: (s) => {
      heard = Date.now();
      sampled(s);
      Promise.resolve(shown.sample?.(s)).catch(failed);
    },
  });
  follow("SettingsService/WatchSettings", {}, signal, {
    began: () => {
      back();
      call("SettingsService/ListRevisions", { page_size: 100 }).then((r) => r.revisions.forEach(changed), failed);
    },
    message: ({ revision }) => {
      changed(revision);
      shown.revised?.();
      if (!main.contains(document.activeElement) || !document.activeElement.matches("input, select")) renew(); // else somebody types
      else call("StatusService/GetStatus").then(seen, failed);
    },
    lost: failed,
  });
  for (const s of shown.streams ?? []) {
    const began = () => {
      back();
      s.began?.();
    };
    follow(s.method, s.request, signal, { ...s, began, lost: failed });
  }
}

// seen shows what every view has: the client, and a change to be confirmed.
function seen(status) {
  heard = Date.now();
  if (blindSince) say(`rdmad did not answer from ${clock(blindSince)} to ${clock(new Date(heard))}. What happened meanwhile is not in the plots.`);
  blindSince = null;
  alarm.hidden = true;
  role = status.role.replace("ROLE_", "").toLowerCase();
  mayChange = role === "operator" || role === "admin";
  document.getElementById("who").textContent = `${status.actor}, ${role}`;
  document.getElementById("logout").hidden = false;
  document.querySelector('nav a[href="#/audit"]').hidden = role !== "admin";
  pending(status, mayChange, refresh);
}

// failed says what is wrong, and what to do.
function failed(problem) {
  if (problem.code === "unauthenticated") {
    if (left) return; // a request was on its way
    if (secure && view && blindSince) resume(problem);
    else stopped("No session", problem.message, noSession());
    return;
  }
  if (problem.code === "canceled") return; // the session's connection was closed; the next request says why
  if (problem instanceof NotReached || problem.code === "unavailable") { // unavailable: it is ending
    blindSince ??= new Date(heard);
    alarm.textContent = `rdmad does not answer since ${clock(blindSince)}. What is shown is old. The console tries again by itself.`;
  } else {
    alarm.textContent = problem.message;
    document.getElementById("loading")?.replaceWith(h("p", {}, "rdmad did not give what this view shows. ", h("a", { href: "#/overview" }, "Go to the overview")));
  }
  alarm.hidden = false;
}

const noSession = () => ["Run ", copyable(command("console")), " in a terminal, and open the address that it prints."];

// stopped shows why there is nothing else to be seen.
function stopped(title, ...texts) {
  view?.close?.();
  view = null;
  blindSince = null;
  begin();
  document.getElementById("who").textContent = "";
  document.getElementById("logout").hidden = true;
  for (const id of ["confirm", "notice", "alarm"]) document.getElementById(id).hidden = true;
  document.getElementById("dialog").close();
  main.replaceChildren(h("section", {}, h("h1", {}, title), texts.map((text) => h("p", {}, text)),
    secure && h("button", { class: "main", click: enter }, "Begin a session with a certificate")));
}

// resume begins a session with the browser's client certificate, in place of one that
// has ended while rdmad did not answer, and goes on with the view.
async function resume(problem) {
  if (resuming) return;
  resuming = true;
  try {
    await login();
    begin();
  } catch {
    stopped("No session", problem.message, noSession());
  } finally {
    resuming = false;
  }
}

// enter begins a session with the browser's client certificate.
async function enter() {
  try {
    left = false;
    await login();
    route();
  } catch (problem) {
    failed(problem);
  }
}

// status asks rdmad for its status. Without a session, a certificate begins one.
async function status() {
  try {
    return await call("StatusService/GetStatus");
  } catch (problem) {
    if (!secure || view || left || problem.code !== "unauthenticated") throw problem;
    await login();
    return call("StatusService/GetStatus");
  }
}

// route shows the view that the address names.
async function route() {
  const mine = ++routes;
  const token = new URLSearchParams(location.hash.slice(1)).get("token");
  if (token) {
    history.replaceState(null, "", last);
    try {
      left = false;
      await login(token);
    } catch (problem) {
      failed(problem);
      return;
    }
  }
  const at = where();
  const name = Object.hasOwn(views, at.name) ? at.name : "overview";
  for (const a of document.querySelectorAll("nav a")) {
    if (a.hash === `#/${name}`) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  document.title = `${name} – rdmad console`;
  try {
    seen(await status()); // the view needs the role
  } catch (problem) {
    failed(problem);
    if (problem.code === "unauthenticated") return;
  }
  const fleetLink = document.querySelector('nav a[href="#/fleet"]');
  if (fleetLink.hidden) hasFleet().then((has) => { fleetLink.hidden = !has; });
  if (mine !== routes) return; // the user has gone to another one
  view?.close?.();
  view = views[name](at);
  last = location.hash;
  main.replaceChildren(h("p", { id: "loading" }, "Loading …"));
  if (mine > 1) main.focus({ preventScroll: true }); // a link of the view before may have had the focus
  begin();
}

document.getElementById("logout").addEventListener("click", async () => {
  try {
    await logout();
    left = true;
    stopped("The session has ended", noSession());
  } catch (problem) {
    failed(problem);
  }
});
document.querySelector(".skip").addEventListener("click", (e) => { // the address stays that of the view
  e.preventDefault();
  main.focus();
});
document.addEventListener("visibilitychange", () => {
  if (view || document.hidden) begin();
  else route(); // another tab may have begun a session
});
document.addEventListener("keydown", (e) => {
  const filter = document.getElementById("filter");
  if (e.key === "/" && filter && !/INPUT|SELECT/.test(document.activeElement.tagName)) {
    e.preventDefault();
    filter.focus();
  }
});
addEventListener("unhandledrejection", (e) => failed(e.reason));
addEventListener("hashchange", route);
route();
