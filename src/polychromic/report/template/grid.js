// A level with the paths of its strategies. Codes are columns of cells from the left, as the engine stores them.
const PAINT = { red: "#e04040", green: "#2fa84f", blue: "#3b6fe0", purple: "#9a4fd0", yellow: "#d8b000", grey: "#8a9099" };
const TILE = 20;

function gridAt(configuration, strategy, moment) {
  const codes = [...configuration.grid];
  for (let at = 0; at < strategy.changes.length; at += 4) {
    const [when, x, y, code] = strategy.changes.slice(at, at + 4);
    if (when <= moment) codes[x * configuration.height + y] = code;
  }
  return codes;
}

function thing(kind, tint, x, y) {
  const [left, top, middle, centre] = [x * TILE, y * TILE, (x + 0.5) * TILE, (y + 0.5) * TILE];
  const paint = PAINT[tint] || "var(--text)";
  const square = (attributes) => draw("rect", { x: left, y: top, width: TILE, height: TILE, ...attributes });
  switch (kind) {
    case "wall": return [square({ fill: "var(--wall)" })];
    case "goal": return [square({ fill: "var(--goal)" })];
    case "lava": return [square({ fill: "#f06a1d" })];
    case "floor": return [square({ fill: paint, "fill-opacity": 0.25 })];
    case "ball": return [draw("circle", { cx: middle, cy: centre, r: 6, fill: paint })];
    case "box": return [draw("rect", { x: left + 4, y: top + 4, width: 12, height: 12, fill: "none", stroke: paint, "stroke-width": 2.5 })];
    case "key": return [draw("circle", { cx: middle, cy: centre - 4, r: 3, fill: "none", stroke: paint, "stroke-width": 2.5 }),
      draw("path", { d: `M${middle},${centre - 1}v8m0,-3h3m-3,3h3`, stroke: paint, "stroke-width": 2.2, fill: "none" })];
    case "open door": return [draw("rect", { x: left + 1, y: top + 1, width: 18, height: 18, fill: "none", stroke: paint, "stroke-width": 1.6, "stroke-dasharray": "3 2" })];
    case "closed door": return [draw("rect", { x: left + 1, y: top + 1, width: 18, height: 18, fill: paint, "fill-opacity": 0.35, stroke: paint, "stroke-width": 2 }),
      draw("circle", { cx: left + 15, cy: centre, r: 1.8, fill: paint })];
    case "locked door": return [draw("rect", { x: left + 1, y: top + 1, width: 18, height: 18, fill: paint, "fill-opacity": 0.8, stroke: paint, "stroke-width": 2 }),
      draw("path", { d: `M${left + 13},${centre - 4}v8`, stroke: "var(--page)", "stroke-width": 2.5 })];
    default: return [];
  }
}

// Paths that share a corridor are drawn side by side: each strategy has its own offset from the middle of a cell.
function pathOf(strategy, number, count, until) {
  const shift = (number - (count - 1) / 2) * 2.4;
  const points = [];
  for (let moment = 0; moment <= Math.min(until, strategy.steps); moment += 1) {
    points.push(`${(strategy.path[3 * moment] + 0.5) * TILE + shift},${(strategy.path[3 * moment + 1] + 0.5) * TILE + shift}`);
  }
  return `M${points.join("L")}`;
}

// Rooms by the numbers that the list of strategies uses. The world says where each is written.
function roomNumbers(rooms) {
  const texts = [];
  for (let at = 0; at < (rooms || []).length; at += 2) {
    const [x, y] = rooms.slice(at, at + 2);
    if (x >= 0) texts.push(draw("text", { class: "room", x: (x + 0.5) * TILE, y: (y + 0.5) * TILE + 12, "text-anchor": "middle", "font-size": 34, "font-weight": 700, style: "font-size:34px;font-weight:700;fill:var(--soft)", fill: "var(--soft)", "fill-opacity": 0.45 }, String(at / 2 + 1)));
  }
  return texts;
}

function drawLevel({ comparison, backdrop, recording, chosen, moment }) {
  const [columns, lines] = comparison.gridShape;
  const picture = draw("svg", { class: "level", viewBox: `0 0 ${columns * TILE} ${lines * TILE}`, role: "img" });
  picture.append(draw("rect", { width: columns * TILE, height: lines * TILE, fill: "var(--floor)" }));
  const strategy = recording.strategies[chosen];
  const codes = strategy ? gridAt({ grid: backdrop.grid, height: lines }, strategy, moment) : backdrop.grid;
  codes.forEach((code, at) => {
    const [kind, tint] = comparison.legend[code] || ["empty", ""];
    picture.append(...thing(kind, tint, Math.floor(at / lines), at % lines));
  });
  picture.append(...roomNumbers(backdrop.rooms));
  recording.strategies.forEach((one, number) => {
    const own = number === chosen;
    picture.append(draw("path", { class: "path", d: pathOf(one, number, recording.strategies.length, own ? moment : Infinity),
      fill: "none", stroke: strategyColour(number), "stroke-width": own ? 3.2 : 1.6, "stroke-opacity": own ? 1 : 0.45,
      "stroke-linejoin": "round", "stroke-linecap": "round", "stroke-dasharray": one.solved ? null : "4 4" }));
  });
  if (strategy) {
    const now = Math.min(moment, strategy.steps);
    const [x, y, direction] = strategy.path.slice(3 * now, 3 * now + 3);
    picture.append(draw("path", { class: "agent", d: "M8,0L-6,-6L-6,6Z", fill: strategyColour(chosen), stroke: "var(--page)",
      "stroke-width": 1.5, transform: `translate(${(x + 0.5) * TILE} ${(y + 0.5) * TILE}) rotate(${90 * direction})` }));
  }
  return picture;
}

const roomsOf = (one) => one.rooms.map((room) => room + 1);

viewers.grid = {
  note: "Each number is a strategy, a set of rooms visited; its path has the same colour. Dashed paths did not solve it.",
  said: (one) => `rooms ${roomsOf(one).join(" → ")}: ${one.solved ? `solved in ${one.steps} steps` : "not solved"}, ${one.successes} of ${one.count} attempts succeed`,
  picture: drawLevel,
  rows: (recording) => [["strategy", "rooms", "solved", "step", "x", "y", "direction"], ...recording.strategies.flatMap((one, number) =>
    Array.from({ length: one.steps + 1 }, (_, at) => [number + 1, roomsOf(one).join(" "), one.solved, at, ...one.path.slice(3 * at, 3 * at + 3)]))],
};
