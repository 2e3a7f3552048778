// Who solves what: methods by configurations, darker is solved more often. Click or press Enter to look at it below.
function heatmap(comparison, open) {
  if (!comparison.successKnown) return "";
  const methods = comparison.methods.filter((method) => method.figures && method.figures.solved);
  const count = comparison.configurations.length;
  const title = "Who solves what";
  const section = make("section", {}, make("h2", {}, title));
  if (!methods.length) return section;
  const wide = Math.max(...methods.map((method) => method.label.length)) * 6.6 + 12;
  const left = Math.min(wide, 250);
  const cell = Math.max(9, Math.min(18, (900 - left) / count));
  const height = 22 * methods.length + 24;
  const width = left + cell * count + 6;
  // At most as large as it is meant to be: three configurations are not blown up to the width of the page.
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, style: `width:${Math.round(1.2 * width)}px`, tabindex: "0", role: "img",
    "aria-label": "Share of attempts solved, methods by configurations. Arrow keys read values, Enter opens the rollout viewer." });
  const mark = draw("rect", { width: cell, height: 22, fill: "none", stroke: "var(--accent)", "stroke-width": 2.5, visibility: "hidden" });
  const readout = make("div", { class: "readout", "aria-live": "polite" });
  let [row, column] = [0, 0];
  const read = () => {
    mark.setAttribute("x", left + column * cell);
    mark.setAttribute("y", row * 22);
    mark.setAttribute("visibility", "visible");
    const { mission } = comparison.configurations[column];
    readout.textContent = `${methods[row].label} solves ${round(100 * methods[row].figures.solved[column], 1)} % of its attempts at configuration ${configurationName(comparison, column)}: ${mission}`;
  };
  methods.forEach((method, at) => {
    const index = comparison.methods.indexOf(method);
    picture.append(draw("text", { x: left - 6, y: at * 22 + 15, "text-anchor": "end" }, method.label.length > 36 ? `${method.label.slice(0, 35)}…` : method.label));
    method.figures.solved.forEach((share, task) => {
      const solved = share > 0;
      picture.append(draw("rect", { class: "cell", x: left + task * cell, y: at * 22, width: cell - 1, height: 21,
        fill: solved ? colour(index) : "var(--raised)", "fill-opacity": solved ? 0.15 + 0.85 * share : 1,
        stroke: solved ? "none" : "var(--line)",
        onpointermove: () => { [row, column] = [at, task]; read(); },
        onclick: () => { [row, column] = [at, task]; read(); open(column, index); } }));
    });
  });
  for (let task = 0; task < count; task += 10) {
    picture.append(draw("text", { x: left + task * cell, y: height - 6 }, String(task + 1)));
  }
  picture.append(mark);
  picture.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
    if (event.key === "Enter") open(column, comparison.methods.indexOf(methods[row]));
    else if (event.key in moves) {
      row = Math.max(0, Math.min(methods.length - 1, row + moves[event.key][0]));
      column = Math.max(0, Math.min(count - 1, column + moves[event.key][1]));
      read();
    } else return;
    event.preventDefault();
  });
  const rows = [["configuration", "level seed", "mission", ...methods.map((method) => method.label)],
    ...comparison.configurations.map(({ seed, mission }, task) => [task + 1, seed, mission, ...methods.map((method) => method.figures.solved[task])])];
  section.append(make("p", { class: "note" }, "A column is a configuration; the stronger the colour, the more attempts solve it; an empty cell was never solved."),
    make("figure", {}, make("div", { class: "scroll" }, picture), readout, make("figcaption", {}, downloads(title, () => picture, rows))));
  return section;
}
