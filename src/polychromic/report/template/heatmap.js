// Who solves what: methods by configurations, darker is solved more often. Click or press Enter to watch it below.
// On a phone configurations run downwards.
const FEWEST_CONFIGURATIONS = 4; // fewer are told by a table

function heatmap(comparison, open) {
  const methods = comparison.methods.filter((method) => method.figures && method.figures.solved);
  const count = comparison.configurations.length;
  if (!comparison.successKnown || !methods.length || count < FEWEST_CONFIGURATIONS) return null;
  const title = "Who solves what";
  const box = make("div");
  const readout = make("div", { class: "readout", "aria-live": "polite" });
  const byNumber = [...Array(count).keys()];
  const solvedBy = byNumber.map((task) => methods.reduce((sum, method) => sum + method.figures.solved[task], 0));
  const orders = { number: byNumber, hardest: byNumber.toSorted((one, other) => solvedBy[one] - solvedBy[other]) };
  let order = "number";
  let [row, column] = [0, 0]; // of the cell that is read: method, place in the order

  function picture() {
    const labels = methods.map((method) => (NARROW ? shortLabel(method.label) : clipped(method.label, 36)));
    const left = NARROW ? 30 : Math.max(...labels.map((label) => label.length)) * 6.6 + 12;
    const top = NARROW ? 34 : 4;
    const [wide, high] = NARROW ? [(366 - left) / methods.length, 15] : [Math.max(9, Math.min(20, (900 - left) / count)), 24];
    const [width, height] = NARROW ? [370, top + high * count + 40] : [left + Math.max(wide * count, 300) + 6, top + high * methods.length + 62];
    const at = (method, place) => (NARROW ? [left + method * wide, top + place * high] : [left + place * wide, top + method * high]);
    const drawn = draw("svg", { viewBox: `0 0 ${width} ${height}`, style: `width:${NARROW ? "100%" : `${Math.round(1.2 * width)}px`};max-width:100%`, tabindex: "0", role: "img",
      "aria-label": "Share of attempts solved, methods by configurations. Arrow keys read values, Enter opens the episodes." });
    labels.forEach((label, method) => drawn.append(NARROW
      ? draw("text", { "text-anchor": "middle" }, ...label.split(", ").slice(0, 2).map((line, at) =>
        draw("tspan", { x: left + (method + 0.5) * wide, y: 13 + 14 * at, "font-size": 11, style: "font-size:11px" }, clipped(line, 12))), draw("title", {}, methods[method].label))
      : draw("text", { x: left - 8, y: top + method * high + 16, "text-anchor": "end" }, label)));
    orders[order].forEach((task, place) => {
      methods.forEach((method, number) => {
        const [x, y] = at(number, place);
        const share = method.figures.solved[task];
        drawn.append(draw("rect", { class: "cell", x, y, width: wide - 1, height: high - 1, fill: share > 0 ? "var(--heat)" : "var(--page)",
          "fill-opacity": share > 0 ? 0.12 + 0.88 * share : 1, stroke: share > 0 ? "none" : "var(--line)",
          onpointermove: () => { [row, column] = [number, place]; read(); },
          onclick: () => { [row, column] = [number, place]; read(); show(); } }));
      });
      if (order === "hardest" ? place === 0 || place === count - 1 : place % 10 === 0) {
        const [x, y] = NARROW ? [left - 5, top + place * high + 11] : [left + place * wide + (place ? wide - 1 : 0), top + high * methods.length + 15];
        drawn.append(draw("text", { x, y, "text-anchor": NARROW || (place === count - 1 && order === "hardest") ? "end" : place ? "middle" : "start", "font-size": 11, style: "font-size:11px" }, String(task + 1)));
      }
    });
    // The scale.
    const [x0, y0] = [left, height - 22];
    [0, 0.25, 0.5, 0.75, 1].forEach((share, step) => drawn.append(
      draw("rect", { class: "scale", x: x0 + 52 * step, y: y0, width: 51, height: 8, fill: share ? "var(--heat)" : "var(--page)", "fill-opacity": share ? 0.12 + 0.88 * share : 1, stroke: share ? "none" : "var(--line)" }),
      draw("text", { x: x0 + 52 * step + 25, y: y0 + 20, "text-anchor": "middle", "font-size": 11, style: "font-size:11px" }, share ? `${100 * share} %` : "never")));
    const mark = draw("rect", { class: "mark", width: wide, height: high, fill: "none", stroke: "var(--warn)", "stroke-width": 2.5, visibility: "hidden" });
    drawn.append(mark);
    drawn.addEventListener("keydown", (event) => {
      const moves = NARROW ? { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] } : { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
      if (event.key === "Enter") show();
      else if (event.key in moves) {
        row = Math.max(0, Math.min(methods.length - 1, row + moves[event.key][0]));
        column = Math.max(0, Math.min(count - 1, column + moves[event.key][1]));
        read();
      } else return;
      event.preventDefault();
    });
    drawn.place = () => { const [x, y] = at(row, column); mark.setAttribute("x", x - 0.5); mark.setAttribute("y", y - 0.5); mark.setAttribute("visibility", "visible"); };
    return drawn;
  }

  let shown = picture();
  const read = () => {
    const task = orders[order][column];
    const { mission } = comparison.configurations[task];
    shown.place();
    readout.textContent = `${methods[row].label} solves ${percent(methods[row].figures.solved[task])} of its attempts at configuration ${configurationName(comparison, task)}${mission ? `: ${mission}` : ""}`;
  };
  const show = () => open(orders[order][column], comparison.methods.indexOf(methods[row]));
  box.append(shown);
  const rows = [["configuration", "level seed", "mission", ...methods.map((method) => method.label)],
    ...comparison.configurations.map(({ seed, mission }, task) => [task + 1, seed, mission, ...methods.map((method) => method.figures.solved[task])])];
  return [
    make("p", { class: "note" }, `${NARROW ? "A row" : "A column"} is a configuration; the stronger the colour, the more attempts solve it. Choose a cell to watch its episodes.`),
    make("div", { class: "controls" }, select("Order", [["number", "by number"], ["hardest", "hardest first"]], order, (value) => { order = value; shown = picture(); box.replaceChildren(shown); })),
    make("figure", {}, box, make("figcaption", {}, readout, downloads(title, () => shown, rows)))];
}
