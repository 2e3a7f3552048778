// Curves of one comparison: pass@k, temperature, training.
function passCurves(comparison) {
  if (!comparison.successKnown) return null;
  const series = comparison.methods.map((method) => {
    const found = method.figures && method.figures.pass_at_k;
    return { label: method.label, colour: methodColour(method), points: found ? found.mean.map((mean, at) => [at + 1, mean, found.low[at], found.high[at]]) : [] };
  });
  const exact = comparison.methods.filter((method) => method.figures && method.figures.exact).map((method) => ({
    label: `${method.label}, exact`, colour: methodColour(method), dash: "2 4", points: method.figures.exact.pass_at_k.map((value, at) => [at + 1, value]) }));
  const most = Math.max(...series.map((one) => one.points.length));
  return most > 1 ? lineChart({ title: "pass@k", xLabel: "attempts k", yLabel: "solved at least once", logX: true, unit: true, series: [...series, ...exact] }) : null;
}

function scanChart(comparison) {
  const series = comparison.methods.filter((method) => method.sweep.length > 1)
    .map((method) => ({ label: method.label, colour: methodColour(method), points: method.sweep }));
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
  // The evaluation of the base policy has more attempts, which success, return and entropy do not depend on.
  const base = comparison.methods.find((method) => method.label === "pretrained");
  const start = ["success", "return", "entropy"].includes(name) && base?.figures?.[name] ? [[0, base.figures[name].mean]] : [];
  for (const method of comparison.methods) {
    const runs = method.runs.filter((run) => run[name].length && run[name].every((value) => value !== null));
    if (!runs.length) continue;
    for (const run of runs.length > 1 ? runs : []) {
      series.push({ label: `${method.label}, ${run.name}`, colour: methodColour(method), thin: true, points: run[name].map((value, at) => [run[axis][at], value]) });
    }
    series.push({ label: method.label, colour: methodColour(method), points: [...start, ...meanOf(runs, name, axis)] });
  }
  const xLabel = axis === "steps" ? "environment steps" : "trajectories";
  const values = new Set(series.flatMap((one) => one.points.map((point) => point[1])));
  return values.size > 1 ? lineChart({ title, xLabel, yLabel: title.split(" during")[0].toLowerCase(), series, unit }) : null;
}

function learningCurves(comparison) {
  if (!comparison.methods.some((method) => method.runs.some((run) => run.iteration.length))) return null;
  const box = make("div", { class: "figures" });
  let axis = "trajectories";
  const attempts = [...new Set(comparison.methods.flatMap((method) => method.runs.map((run) => run.attempts)))].filter((count) => count);
  const curve = (title, name, unit = false) => learningCurve(comparison, axis, title, name, unit);
  const show = () => box.replaceChildren(...[
    ...(comparison.successKnown
      ? [curve("Success during training", "success", true), curve("Coverage during training", "coverage", true)]
      : [curve("Return during training", "return")]),
    curve(`Distinct ${comparison.strategies} during training`, "distinct_strategies"),
    curve("Entropy during training", "entropy")].filter(Boolean));
  show();
  return [make("p", { class: "note" }, `Evaluations at temperature 1 while training${attempts.length ? `, ${attempts.join(" or ")} attempts a configuration` : ""}. Methods that fork spend fewer environment steps on the same number of trajectories, so look at both axes.`),
    make("div", { class: "controls" }, select("Against", [["trajectories", "trajectories"], ["steps", "environment steps"]], axis, (value) => { axis = value; show(); })),
    box];
}
