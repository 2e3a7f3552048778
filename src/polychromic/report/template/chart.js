// Line charts with intervals. Series: {label, colour, dash, points: [[x, y, low, high]], thin}.
const CHART = { width: NARROW ? 370 : 560, plot: NARROW ? 200 : 260, left: 52, right: 14, bottom: 44 };
const LEGEND_LINE = 18;

// Keys above the plot, inside the picture, so that a saved figure explains itself. Returns its height and how to draw it.
function legendOf(keys, width) {
  const places = [];
  let [x, line] = [0, 0];
  for (const key of keys) {
    const label = clipped(key.label, 46);
    const wide = 34 + 6.4 * label.length;
    if (x && x + wide > width) [x, line] = [0, line + 1];
    places.push([key, label, x, line]);
    x += wide;
  }
  const height = LEGEND_LINE * (line + 1) + 8;
  return { height, items: places.flatMap(([key, label, left, row]) => [
    draw("line", { x1: left, x2: left + 18, y1: LEGEND_LINE * row + 9, y2: LEGEND_LINE * row + 9, stroke: key.colour, "stroke-width": 3, "stroke-dasharray": key.dash || null }),
    draw("text", { class: "key", x: left + 23, y: LEGEND_LINE * row + 13 }, label)]) };
}

function niceStep(span, count) {
  const raw = span / count;
  const power = 10 ** Math.floor(Math.log10(raw));
  return [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((step) => step >= raw);
}

function linearTicks(low, high, count = 5) {
  const step = niceStep(high - low || 1, count);
  const ticks = [];
  for (let value = Math.ceil(low / step - 1e-9) * step; value <= high + step * 1e-9; value += step) ticks.push(value);
  return ticks;
}

function shortNumber(value) {
  if (value >= 1e6) return `${+(value / 1e6).toFixed(2)}M`;
  if (value >= 1e3) return `${+(value / 1e3).toFixed(1)}k`;
  return String(+value.toFixed(3));
}

function lineChart({ title, xLabel, yLabel, series, logX = false, unit = false }) {
  const shown = series.filter((one) => one.points.length);
  const all = shown.flatMap((one) => one.points);
  const rows = [["series", xLabel, yLabel, "low", "high"],
    ...shown.flatMap((one) => one.points.map((point) => [one.label, point[0], point[1], point[2], point[3]]))];
  const figure = make("figure", { class: "chart" }, make("h4", {}, title));
  if (!all.length) {
    figure.append(make("p", { class: "note" }, "Nothing was recorded for this figure."));
    return figure;
  }
  const xs = all.map((point) => point[0]);
  const ys = all.flatMap((point) => point.slice(1).filter((value) => value !== undefined && value !== null));
  const [xLow, xHigh] = [logX ? Math.min(...xs) : 0, Math.max(...xs)];
  const yLow = 0;
  const yHigh = unit ? 1 : Math.max(...ys) * 1.05 || 1;
  const { width, plot, left, right, bottom } = CHART;
  const named = shown.filter((one) => !one.thin && !one.dash);
  const legend = legendOf(shown.some((one) => one.dash) ? [...named, { label: "dotted: exact", colour: "var(--soft)", dash: "2 4" }] : named, width);
  const top = legend.height;
  const height = top + plot + bottom;
  const scale = (value) => (logX ? Math.log(value) : value);
  const x = (value) => left + (width - left - right) * (scale(value) - scale(xLow)) / ((scale(xHigh) - scale(xLow)) || 1);
  const y = (value) => height - bottom - (height - top - bottom) * (value - yLow) / (yHigh - yLow);
  const picture = draw("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", tabindex: "0",
    "aria-label": `${title}: ${shown.map((one) => `${one.label} ends at ${round(one.points.at(-1)[1])}`).join("; ")}. Arrow keys read values.` });

  for (const tick of linearTicks(yLow, yHigh)) {
    picture.append(draw("line", { x1: left, x2: width - right, y1: y(tick), y2: y(tick), stroke: "var(--line)" }),
      draw("text", { x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, shortNumber(tick)));
  }
  const ticks = logX ? [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024].filter((tick) => tick >= xLow && tick <= xHigh)
    : linearTicks(xLow, xHigh, width < 500 ? 4 : 6);
  for (const tick of ticks) {
    picture.append(draw("text", { x: x(tick), y: height - bottom + 18, "text-anchor": "middle" }, shortNumber(tick)));
  }
  picture.append(
    draw("line", { x1: left, x2: width - right, y1: y(yLow), y2: y(yLow), stroke: "var(--soft)" }),
    draw("text", { x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle" }, xLabel),
    draw("text", { transform: `translate(14 ${(top + height - bottom) / 2}) rotate(-90)`, "text-anchor": "middle" }, yLabel));

  for (const one of shown) {
    const banded = one.points.filter((point) => point[2] !== undefined && point[2] !== null);
    if (banded.length > 1) {
      const edge = [...banded.map((point) => [point[0], point[3]]), ...banded.toReversed().map((point) => [point[0], point[2]])];
      picture.append(draw("path", { class: "band", fill: one.colour, "fill-opacity": "0.16",
        d: `M${edge.map((point) => `${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join("L")}Z` }));
    }
  }
  for (const one of shown) {
    picture.append(draw("path", { class: "curve", fill: "none", stroke: one.colour, "stroke-width": one.thin ? 1 : 2.4,
      "stroke-opacity": one.thin ? 0.5 : 1, "stroke-dasharray": one.dash || null, "stroke-linejoin": "round",
      d: `M${one.points.map((point) => `${x(point[0]).toFixed(1)},${y(point[1]).toFixed(1)}`).join("L")}` }));
    if (one.points.length <= 12) {
      for (const point of one.points) picture.append(draw("circle", { cx: x(point[0]), cy: y(point[1]), r: one.points.length > 1 ? 3 : 6, fill: one.colour }));
    }
  }

  picture.append(...legend.items);

  const values = [...new Set(xs)].sort((a, b) => a - b);
  const cursor = draw("line", { y1: top, y2: height - bottom, stroke: "var(--soft)", "stroke-dasharray": "3 3", visibility: "hidden" });
  picture.append(cursor);
  const readout = make("div", { class: "readout", "aria-live": "polite" });
  let place = values.length - 1;
  const read = (index) => {
    place = Math.max(0, Math.min(values.length - 1, index));
    const at = values[place];
    cursor.setAttribute("x1", x(at));
    cursor.setAttribute("x2", x(at));
    cursor.setAttribute("visibility", "visible");
    const parts = shown.map((one) => [one, one.points.find((point) => point[0] === at)]).filter(([, point]) => point)
      .map(([one, point]) => `${one.label} ${round(point[1])}${point[2] === undefined || point[2] === null ? "" : ` [${round(point[2])}, ${round(point[3])}]`}`);
    readout.textContent = `${xLabel} ${shortNumber(at)}: ${parts.join(" · ")}`;
  };
  const nearest = (event) => {
    const box = picture.getBoundingClientRect();
    const at = (event.clientX - box.left) * width / box.width;
    read(values.reduce((best, value, index) => (Math.abs(x(value) - at) < Math.abs(x(values[best]) - at) ? index : best), 0));
  };
  picture.addEventListener("pointermove", nearest);
  picture.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: place - 1, ArrowRight: place + 1, Home: 0, End: values.length - 1 };
    if (!(event.key in moves)) return;
    event.preventDefault();
    read(moves[event.key]);
  });
  figure.append(picture, make("figcaption", {}, readout, downloads(title, () => picture, rows)));
  return figure;
}
