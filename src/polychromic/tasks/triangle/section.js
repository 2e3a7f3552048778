// Triangle discovery: the graph with the triangles that each policy names, creativity, and curves over the answers.
function graphHero(comparison) {
  const methods = leadMethods(comparison);
  const shown = methods.length ? methods : comparison.methods.slice(0, 2);
  const backdrop = comparison.backdrops[0];
  if (!backdrop?.edges || !shown.every((method) => method.recordings)) return null;
  const [radius, gap, top] = NARROW ? [86, 12, 48] : [172, 26, 62];
  const width = shown.length * 2 * radius + (shown.length - 1) * gap + 4;
  const height = top + 2 * radius + 6;
  const named = shown.map((method) => method.recordings[0].strategies.filter((one) => one.solved));
  const title = "The triangles that each policy names";
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label":
    `${title} on configuration 1, nodes on a circle: ${shown.map((method, at) => `${method.label} ${named[at].length}`).join(", ")} distinct.` });
  shown.forEach((method, at) => {
    const centre = [2 + radius + at * (2 * radius + gap), top + radius];
    const place = (node) => { const [x, y] = nodePlace(node, backdrop.nodes, radius, 0); return [centre[0] + x, centre[1] + y]; };
    const many = named[at].length;
    picture.append(...graphBackdrop(backdrop, place, radius, centre));
    // Few are drawn boldly, many finely, each on its own so that they shine through.
    const line = many > 20 ? (NARROW ? 0.4 : 0.75) : 2.4;
    picture.append(...named[at].map((one) => draw("path", { class: "named", d: `M${cornersOf(one).map((node) => point(place(node))).join("L")}Z`,
      fill: "none", stroke: methodColour(method), "stroke-opacity": many > 20 ? 0.8 : 1, "stroke-width": line, "stroke-linejoin": "round" })));
    const size = NARROW ? [15, 12] : [21, 14];
    picture.append(
      draw("text", { x: centre[0], y: size[0] + 1, "text-anchor": "middle", "font-size": size[0], "font-weight": 700, fill: methodColour(method), style: `font-size:${size[0]}px;font-weight:700;fill:${methodColour(method)}` }, clipped(method.label, NARROW ? 20 : 34)),
      draw("text", { x: centre[0], y: size[0] + size[1] + 7, "text-anchor": "middle", "font-size": size[1], style: `font-size:${size[1]}px` }, `${many.toLocaleString("en")} ${many === 1 ? "triangle" : "triangles"} on this graph`));
  });
  const rows = [["method", "triangle", "times", "new"], ...shown.flatMap((method, at) => named[at].map((one) => [method.label, cornersOf(one).join(" "), one.successes, one.novel]))];
  const attempts = shown[0].figures.attempts[0];
  return make("figure", { class: "graphs" }, picture, make("figcaption", {},
    `${attempts.toLocaleString("en")} answers of each policy, first graph: its nodes on a circle, its edges faint.`, downloads(title, () => picture, rows)));
}

function discoveries(comparison) {
  const methods = comparison.methods.filter((method) => method.section);
  if (!methods.length) return null;
  const box = make("div", { class: "figures" });
  const show = (counting) => {
    const curve = (title, name, yLabel, unit) => lineChart({ title, xLabel: "answers k", yLabel, logX: true, unit,
      series: methods.map((method) => ({ label: method.label, colour: methodColour(method), points: method.section.ks.map((k, at) => [k, method.section[counting][name][at]]) })) });
    const panel = (name, metric, digits) => ({ name, digits, rows: methods.map((method) => ({ label: method.label, colour: methodColour(method), value: method.section[counting][metric],
      ...(method.section.runs > 1 ? { low: method.section[counting].range[metric][0], high: method.section[counting].range[metric][1] } : {}) })) });
    const figure = barChart({ title: `Validity, diversity and creativity of ${methods[0].section.bar_attempts} answers`,
      panels: [panel("validity", "validity", 3), panel("distinct triangles", "diversity", 1), panel("creativity", "creativity", 4)],
      note: methods.some((method) => method.section.runs > 1) ? "Lines: the lowest and the highest run." : "" });
    const most = methods[0].section.ks.at(-1);
    const trade = lineChart({ title: "Valid and diverse: up and to the right is better", xLabel: "validity", yLabel: `distinct triangles of ${most.toLocaleString("en")}`,
      series: methods.map((method) => ({ label: method.label, colour: methodColour(method), points: [[method.section[counting].validity, method.section[counting].diff_at_k.at(-1)]] })) });
    box.replaceChildren(curve("Distinct triangles in k answers (diff@k)", "diff_at_k", "distinct triangles", false),
      trade, curve("A new triangle in k answers", "creativity_pass_at_k", "chance", true), figure);
  };
  show("strict");
  const { ceiling } = methods[0].section;
  return [make("p", { class: "note" }, `A graph has ${Math.round(ceiling.triangles).toLocaleString("en")} triangles; ${Math.round(ceiling.undiscovered)} of them were in no pretraining sample, which makes them new.`),
    make("div", { class: "controls" }, select("Counting", [["strict", "strict"], ["original", "original"]], "strict", show)), box];
}

taskSections.triangle = { hero: graphHero, diverse: discoveries };
