// Triangle discovery: grouped bars as in the paper's figure, and curves over the number of attempts.
function barChart({ title, groups, series }) {
  // groups: [name, digits]; series: {label, colour, values, ranges}. Every group is scaled to its own largest value.
  const figure = make("figure", { class: "chart" }, make("h3", {}, title));
  const { width, height, left, right, top, bottom } = CHART;
  const largest = groups.map((_, at) => Math.max(...series.map((one) => (one.ranges ? one.ranges[at][1] : one.values[at])), 1e-12));
  const room = (width - left - right) / groups.length;
  const bar = Math.min(40, 0.86 * room / series.length);
  const y = (share) => height - bottom - (height - top - bottom - 16) * share;
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0",
    "aria-label": `${title}: ${series.map((one) => `${one.label} ${groups.map(([name, digits], at) => `${name} ${round(one.values[at], digits)}`).join(", ")}`).join("; ")}.` });
  picture.append(draw("line", { x1: left, x2: width - right, y1: y(0), y2: y(0), stroke: "var(--soft)" }));
  groups.forEach(([name, digits], at) => {
    const first = left + room * (at + 0.5) - bar * series.length / 2;
    series.forEach((one, number) => {
      const share = one.values[at] / largest[at];
      const x = first + bar * number;
      picture.append(draw("rect", { class: "bar", x: x + 1, y: y(share), width: bar - 2, height: y(0) - y(share), fill: one.colour },
        draw("title", {}, `${one.label}: ${name} ${round(one.values[at], digits)}`)));
      if (one.ranges && one.ranges[at][1] > one.ranges[at][0]) {
        picture.append(draw("line", { x1: x + bar / 2, x2: x + bar / 2, y1: y(one.ranges[at][0] / largest[at]), y2: y(one.ranges[at][1] / largest[at]), stroke: "var(--text)" }));
      }
      picture.append(draw("text", { x: x + bar / 2, y: y(one.ranges ? one.ranges[at][1] / largest[at] : share) - 4, "text-anchor": "middle", "font-size": bar < 30 ? 8 : 10 }, round(one.values[at], digits)));
    });
    picture.append(draw("text", { x: left + room * (at + 0.5), y: height - bottom + 18, "text-anchor": "middle" }, name));
  });
  const rows = [["method", ...groups.map(([name]) => name)], ...series.map((one) => [one.label, ...one.values])];
  figure.append(picture, make("figcaption", {}, downloads(title, () => picture, rows)));
  return figure;
}

taskSections.triangle = (comparison) => {
  const methods = comparison.methods.map((method, index) => ({ label: method.label, colour: colour(index), found: method.section }))
    .filter((one) => one.found);
  if (!methods.length) return null;
  const box = make("div", { class: "figures" });
  const names = ["validity", "diversity", "creativity"];
  const show = (counting) => {
    const curve = (title, name, yLabel, unit) => lineChart({ title, xLabel: "attempts k", yLabel, logX: true, unit,
      series: methods.map((one) => ({ label: one.label, colour: one.colour, points: one.found.ks.map((k, at) => [k, one.found[counting][name][at]]) })) });
    box.replaceChildren(
      barChart({ title: `Validity, diversity and creativity of ${methods[0].found.bar_attempts} attempts`,
        groups: [["validity", 3], ["diversity", 1], ["creativity", 4]],
        series: methods.map((one) => ({ label: one.label, colour: one.colour, values: names.map((name) => one.found[counting][name]), ranges: names.map((name) => one.found[counting].range[name]) })) }),
      curve("Validity pass@k", "validity_pass_at_k", "a valid triangle in k", true),
      curve("Creativity pass@k", "creativity_pass_at_k", "a new triangle in k", true),
      curve("diff@k", "diff_at_k", "distinct triangles in k", false));
  };
  show("strict");
  const ceiling = methods[0].found.ceiling;
  return make("section", {}, make("h2", {}, "Discovery"),
    make("p", { class: "note" }, `Every group of bars is scaled to its largest value; lines show the lowest and the highest run. A graph has ${Math.round(ceiling.triangles)} triangles, of which ${Math.round(ceiling.undiscovered)} were in no pretraining sample.`),
    make("div", { class: "controls" }, select("Counting", [["strict", "strict"], ["original", "original"]], "strict", show)), box);
};
