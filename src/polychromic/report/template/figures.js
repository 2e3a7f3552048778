// Tables, legend and curves of one comparison.
// What tasks add to a page: (comparison) => element, by the name of the metric that it shows.
const taskSections = {};

function legendOf(methods) {
  return make("ul", { class: "legend" }, ...methods.map((method, index) =>
    make("li", {}, make("span", { class: "swatch", style: `background:${colour(index)}` }), method.label)));
}

function tableOf(table) {
  const told = Math.max(2, table.columns.indexOf("runs"));
  const missing = (row) => row[told] === "–";
  const body = table.rows.map((row) => make("tr", { class: missing(row) ? "missing" : null },
    ...row.map((cell, index) => make("td", { class: index === 1 ? "wrap" : null }, cell))));
  return make("section", {}, make("h2", {}, table.title), make("p", { class: "note" }, table.note),
    make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": table.title },
      make("table", {}, make("thead", {}, make("tr", {}, ...table.columns.map((name) => make("th", { scope: "col" }, name)))),
        make("tbody", {}, ...body))),
    make("figcaption", {}, downloads(table.title, null, [table.columns, ...table.rows])));
}

function passCurves(comparison) {
  const series = comparison.methods.map((method, index) => {
    const found = method.figures && method.figures.pass_at_k;
    const points = found ? found.mean.map((mean, at) => [at + 1, mean, found.low[at], found.high[at]]) : [];
    return { label: method.label, colour: colour(index), points };
  });
  const exact = comparison.methods.map((method, index) => ({
    label: `${method.label}, exact`, colour: colour(index), dash: "2 4",
    points: method.figures && method.figures.exact ? method.figures.exact.pass_at_k.map((value, at) => [at + 1, value]) : [],
  })).filter((one) => one.points.length);
  if (!comparison.successKnown) return "";
  return lineChart({ title: "pass@k", xLabel: "attempts k", yLabel: "solved at least once", logX: true, unit: true,
    series: [...series, ...exact] });
}

function sweepChart(comparison) {
  const series = comparison.methods.map((method, index) => ({ label: method.label, colour: colour(index), points: method.sweep }))
    .filter((one) => one.points.length);
  const name = comparison.successKnown ? "Success" : "Return";
  return series.length ? lineChart({ title: `${name} against sampling temperature`, xLabel: "temperature", yLabel: name.toLowerCase(), unit: comparison.successKnown, series }) : null;
}

// Mean over runs at the iterations that all of them have.
function meanOf(runs, name, axis) {
  const count = Math.min(...runs.map((run) => run[name].length));
  const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
  return Array.from({ length: count }, (_, at) => [mean(runs.map((run) => run[axis][at])), mean(runs.map((run) => run[name][at]))]);
}

function learningCurve(comparison, axis, title, name, unit) {
  const series = [];
  comparison.methods.forEach((method, index) => {
    const runs = method.runs.filter((run) => run[name].length && run[name].every((value) => value !== null));
    if (!runs.length) return;
    if (runs.length > 1) {
      for (const run of runs) {
        series.push({ label: `${method.label}, ${run.name}`, colour: colour(index), thin: true, points: run[name].map((value, at) => [run[axis][at], value]) });
      }
    }
    // The evaluation of the base policy has more attempts, which success and entropy do not depend on.
    const start = ["success", "return", "entropy"].includes(name) && comparison.methods[0].figures && comparison.methods[0].figures[name] && comparison.methods[0].label === "pretrained"
      ? [[0, comparison.methods[0].figures[name].mean]] : [];
    series.push({ label: method.label, colour: colour(index), points: [...start, ...meanOf(runs, name, axis)] });
  });
  const xLabel = axis === "steps" ? "environment steps" : "trajectories";
  return lineChart({ title, xLabel, yLabel: title.toLowerCase(), series, unit });
}

function learningCurves(comparison) {
  const box = make("div", { class: "figures" });
  let axis = "trajectories";
  const attempts = [...new Set(comparison.methods.flatMap((method) => method.runs.map((run) => run.attempts)))].filter((count) => count);
  const show = () => box.replaceChildren(
    ...(comparison.successKnown
      ? [learningCurve(comparison, axis, "Success during training", "success", true), learningCurve(comparison, axis, "Coverage during training", "coverage", true)]
      : [learningCurve(comparison, axis, "Return during training", "return", false)]),
    learningCurve(comparison, axis, "Policy entropy during training", "entropy", false),
    learningCurve(comparison, axis, `Distinct ${comparison.strategies} per configuration`, "distinct_strategies", false));
  show();
  return make("section", {}, make("h2", {}, "Learning"),
    make("p", { class: "note" }, `Evaluations at temperature 1 while training${attempts.length ? `, ${attempts.join(" or ")} attempts a configuration` : ""}. Methods that fork spend fewer environment steps on the same number of trajectories, so look at both axes.`),
    make("div", { class: "controls" }, select("Against", [["trajectories", "trajectories"], ["steps", "environment steps"]], axis, (value) => { axis = value; show(); })),
    box);
}
