import uPlot from "./uplot/uPlot.esm.js";
import { changes } from "./live.js";
import { duration, h, rate, table } from "./dom.js";
import { changed } from "./dialog.js";

const synced = uPlot.sync("time");

// colour is the colour of a class in this browser's light or dark mode.
function colour(name) {
  const probe = h("span", { class: name, hidden: true });
  document.body.append(probe);
  const { color } = getComputedStyle(probe);
  probe.remove();
  return color;
}

// plot makes a figure of columns of samples. A series is {name, column, tone}: tone is
// a class of the style sheet. A line marks each change of the settings.
function plot(title, unit, samples, series) {
  const place = h("div");
  const figure = h("figure", { class: "plot" }, h("figcaption", {}, `${title}, ${unit}`), place);
  place.setAttribute("role", "img");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const resized = new ResizeObserver(() => { if (drawn && figure.clientWidth > 0) drawn.setSize(size()); });
  let drawn = null;

  function make() {
    drawn?.destroy();
    const quiet = colour("quiet"), line = colour("line");
    const axis = { stroke: quiet, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: "12px system-ui" };
    drawn = new uPlot({
      ...size(), padding: [8, 12, 0, 0],
      cursor: { sync: { key: synced.key }, drag: { x: false, y: false } },
      select: { show: false },
      scales: { x: { range: (_, first, last) => [Math.min(first, last - 60), last] }, y: { range: (_, low, high) => [0, 1.1 * high || 1] } },
      axes: [{ ...axis, values: times }, { ...axis, size: 64, values: (_, all) => all.map(rate) }],
      series: [{ label: "Time", value: (_, t) => (t == null ? "" : new Date(1000 * t).toLocaleTimeString("sv-SE")) },
        ...series.map((s) => ({ label: s.name, stroke: colour(s.tone), width: 1.5, points: { show: false }, value: (_, v) => (v == null ? "" : rate(v)) }))],
      hooks: { draw: [marks] },
    }, data(), place);
  }

  const size = () => ({ width: Math.max(240, figure.clientWidth), height: 170 });
  const data = () => [samples.times, ...series.map((s) => samples.columns[s.column])];

  return {
    figure,
    // draw shows the samples of now.
    draw() {
      if (!figure.isConnected || figure.clientWidth === 0) return;
      if (!drawn) {
        make();
        resized.observe(figure);
        dark.addEventListener("change", make);
      } else drawn.setData(data());
      place.setAttribute("aria-label", `${title}, ${unit}. Now: ${series.map((s) => `${s.name} ${latest(samples.columns[s.column])}`).join(", ")}. The table of latest values has more.`);
    },
    close() {
      resized.disconnect();
      dark.removeEventListener("change", make);
      drawn?.destroy();
    },
    // rows are the latest values, for those who don't see the plot.
    rows: () => series.map((s) => ({ name: `${title}: ${s.name}`, unit, ...summary(samples.columns[s.column]) })),
  };
}

// plots makes figures of the columns of samples, in their order: [title, unit,
// [[name, tone] of each column]]. A table has the latest values as text.
export function plots(samples, figures) {
  let column = 0;
  const all = figures.map(([title, unit, series]) => plot(title, unit, samples, series.map(([name, tone]) => ({ name, tone, column: column++ }))));
  const values = h("div"), lines = h("div");
  return {
    place: h("div", {}, h("div", { class: "plots" }, all.map((p) => p.figure)), lines, h("details", { class: "values" }, h("summary", {}, "Latest values"), values)),
    draw() {
      for (const p of all) p.draw();
      lines.replaceChildren(marked(samples));
      values.replaceChildren(table(`The plots as text, over the last ${duration((samples.times.at(-1) ?? 0) - (samples.times[0] ?? 0))}`, [
        { name: "Value", cell: (r) => r.name },
        { name: "Unit", cell: (r) => r.unit },
        ...["Now", "Mean", "Least", "Most"].map((name) => ({ name, number: true, cell: (r) => r[name.toLowerCase()] })),
      ], all.flatMap((p) => p.rows())));
    },
    close: () => all.forEach((p) => p.close()),
  };
}

const times = (_, all) => all.map((t) => new Date(1000 * t).toLocaleTimeString("sv-SE"));

const latest = (column) => (column.at(-1) == null ? "not known" : rate(column.at(-1)));

function summary(column) {
  const known = column.filter((v) => v != null);
  if (known.length === 0) return { now: "…", least: "…", most: "…", mean: "…" };
  return {
    now: latest(column), least: rate(Math.min(...known)), most: rate(Math.max(...known)),
    mean: rate(known.reduce((a, b) => a + b, 0) / known.length),
  };
}

// marks draws a line for each change in the time that is shown.
function marks(u) {
  const { left, top, width, height } = u.bbox;
  const { ctx } = u;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("warn");
  ctx.font = `${11 * devicePixelRatio}px system-ui`;
  ctx.textAlign = "left";
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  for (const r of shown(u.scales.x.min, u.scales.x.max)) {
    const x = u.valToPos(Date.parse(r.time) / 1000, "x", true);
    if (x < left || x > left + width) continue;
    ctx.beginPath();
    ctx.moveTo(x, top);
    ctx.lineTo(x, top + height);
    ctx.stroke();
    ctx.fillText(`r${r.revision}`, x + 3 * devicePixelRatio, top + 11 * devicePixelRatio);
  }
  ctx.restore();
}

// shown are the changes between two times, in s.
const shown = (from, to) => changes.filter((r) => Date.parse(r.time) / 1000 >= from && Date.parse(r.time) / 1000 <= to);

// marked lists the changes that the plots of samples have lines for.
function marked(samples) {
  const rows = samples.times.length === 0 ? [] : shown(samples.times[0], Infinity);
  if (rows.length === 0) return h("p", { class: "quiet" }, "No change of the settings in the time shown. A dashed line marks each change.");
  return h("ul", { class: "changes" }, rows.slice(-10).map((r) => h("li", {}, h("strong", { class: "warn" }, `r${r.revision}`), ` ${r.kind} by ${r.actor}: `, r.changes.flatMap((c, i) => [i > 0 && "; ", ...changed(c)]))));
}
