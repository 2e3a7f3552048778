// Horizontal bars with intervals: a panel for each metric, a row for each method, the value beside its bar.
// panels: {name, percent, digits, rows: [{label, colour, value, low, high}]}
function barChart({ title, panels, heading = true, note = "Lines are 95 % intervals over configurations." }) {
  const width = NARROW ? 370 : 560;
  const named = (row) => (NARROW ? shortLabel(row.label) : row.label);
  const longest = Math.max(...panels.flatMap((panel) => panel.rows.map((row) => named(row).length)));
  const letters = NARROW ? 22 : 35;
  const left = Math.min(longest, letters) * 6.6 + 10;
  const right = NARROW ? 112 : 122;
  const text = (panel, value) => (panel.percent ? round(100 * value, 1) : round(value, panel.digits ?? 1));
  const told = (panel, row) => `${text(panel, row.value)}${row.low === undefined ? "" : ` [${text(panel, row.low)}, ${text(panel, row.high)}]`}`;
  const height = panels.reduce((sum, panel) => sum + 34 + 25 * panel.rows.length, 4);
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label":
    `${title}. ${panels.map((panel) => `${panel.name}: ${panel.rows.map((row) => `${row.label} ${told(panel, row)}`).join("; ")}`).join(". ")}.` });
  let top = 4;
  for (const panel of panels) {
    const ends = panel.rows.flatMap((row) => [row.value, row.low ?? row.value, row.high ?? row.value]);
    const [least, most] = [Math.min(0, ...ends), Math.max(0, ...ends)];
    const x = (value) => left + (width - left - right) * (value - least) / ((most - least) || 1);
    picture.append(draw("text", { x: 0, y: top + 15, "font-size": 13, "font-weight": 600, style: "font-size:13px;font-weight:600" }, panel.name));
    top += 24;
    for (const row of panel.rows) {
      const [from, to] = [x(Math.min(0, row.value)), x(Math.max(0, row.value))];
      picture.append(
        draw("text", { x: left - 8, y: top + 15, "text-anchor": "end" }, clipped(named(row), letters), draw("title", {}, row.label)),
        draw("rect", { class: "bar", x: from, y: top + 3, width: Math.max(1.5, to - from), height: 16, rx: 2, fill: row.colour }));
      if (row.low !== undefined && row.high > row.low) {
        picture.append(draw("path", { d: `M${x(row.low)},${top + 11}H${x(row.high)}M${x(row.low)},${top + 7}v8M${x(row.high)},${top + 7}v8`, stroke: "var(--text)", "stroke-width": 1.4, fill: "none" }));
      }
      picture.append(draw("text", { class: "value", x: width - right + 10, y: top + 15 }, told(panel, row)));
      top += 25;
    }
    picture.append(draw("line", { x1: x(0), x2: x(0), y1: top - 25 * panel.rows.length, y2: top - 2, stroke: "var(--soft)" }));
    top += 10;
  }
  const rows = [["metric", "method", "mean", "low", "high"],
    ...panels.flatMap((panel) => panel.rows.map((row) => [panel.name, row.label, row.value, row.low, row.high]))];
  return make("figure", { class: "chart" }, heading && make("h4", {}, title), picture, make("figcaption", {}, note, downloads(title, () => picture, rows)));
}

// A panel of a metric that every method has with its interval; null if none has.
function metricPanel(comparison, name, metric, options = {}) {
  const rows = comparison.methods.filter((method) => method.figures && method.figures[metric])
    .map((method) => ({ label: method.label, colour: methodColour(method), value: method.figures[metric].mean, low: method.figures[metric].low, high: method.figures[metric].high }));
  return rows.length ? { name, rows, ...options } : null;
}
