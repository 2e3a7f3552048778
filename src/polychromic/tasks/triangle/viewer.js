// A graph with its nodes on a circle, and the triangles that a policy names.
const GRAPH = { radius: 190, size: 400 };

function nodePlace(node, count, radius = GRAPH.radius, centre = GRAPH.size / 2) {
  const angle = 2 * Math.PI * node / count - Math.PI / 2;
  return [centre + radius * Math.cos(angle), centre + radius * Math.sin(angle)];
}

const point = ([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`;

// The edges of a graph as one faint path, and the circle of its nodes.
function graphBackdrop(backdrop, place, radius, centre) {
  const edges = [];
  for (let at = 0; at < backdrop.edges.length; at += 2) edges.push(`M${point(place(backdrop.edges[at]))}L${point(place(backdrop.edges[at + 1]))}`);
  return [draw("circle", { cx: centre[0], cy: centre[1], r: radius, fill: "none", stroke: "var(--line)" }),
    draw("path", { class: "edges", d: edges.join(""), stroke: "var(--soft)", "stroke-opacity": 0.12, "stroke-width": NARROW ? 0.12 : 0.25, fill: "none" })];
}

const cornersOf = (one) => one.rooms.filter((node) => node >= 0);

viewers.graph = {
  note: "The nodes of the graph are on a circle, its edges faint. Steps are the words of an answer; a line appears with the second node of a pair, dashed if it is not an edge of the graph.",
  said: (one) => `${cornersOf(one).join(" → ") || "no node"}: ${one.solved ? `a triangle, ${one.novel ? "new" : "seen in pretraining"}` : "not valid"}, ${one.count} ${one.count === 1 ? "answer" : "answers"}`,
  picture({ backdrop, recording, chosen, moment }) {
    const { size, radius } = GRAPH;
    const picture = draw("svg", { class: "graph", viewBox: `0 0 ${size} ${size + 34}`, role: "img" });
    const place = (node) => nodePlace(node, backdrop.nodes);
    picture.append(...graphBackdrop(backdrop, place, radius, [size / 2, size / 2]));
    for (const one of recording.strategies.filter((other) => other.solved)) {
      picture.append(draw("path", { class: "named", d: `M${cornersOf(one).map((node) => point(place(node))).join("L")}Z`, fill: "none", stroke: "var(--soft)", "stroke-opacity": 0.3, "stroke-width": 0.4 }));
    }
    const one = recording.strategies[chosen];
    if (!one) return picture;
    const known = new Set();
    for (let at = 0; at < backdrop.edges.length; at += 2) known.add(`${backdrop.edges[at]} ${backdrop.edges[at + 1]}`);
    const words = one.words.split(" ");
    const said = words.slice(0, moment);
    const isNode = (word) => /^\d+$/.test(word);
    const nodes = said.filter(isNode).map(Number);
    const colour = strategyColour(chosen);
    for (let at = 0; at + 1 < said.length; at += 1) {
      if (!isNode(said[at]) || !isNode(said[at + 1])) continue;
      const [from, to] = [Number(said[at]), Number(said[at + 1])];
      const edge = known.has(`${Math.min(from, to)} ${Math.max(from, to)}`);
      picture.append(draw("path", { class: "pair", d: `M${point(place(from))}L${point(place(to))}`, stroke: colour, "stroke-width": 2.6, "stroke-dasharray": edge ? null : "5 5", fill: "none" }));
    }
    for (const node of new Set(nodes)) {
      const [x, y] = place(node);
      const [labelX, labelY] = nodePlace(node, backdrop.nodes, radius - 20);
      picture.append(draw("circle", { class: "node", cx: x, cy: y, r: 5, fill: colour }),
        draw("text", { x: labelX, y: labelY + 4, "text-anchor": "middle", "font-weight": 700 }, String(node)));
    }
    const verdict = moment >= one.steps ? (one.solved ? (one.novel ? "a triangle, and new" : "a triangle, seen in pretraining") : "not a triangle of this graph") : "";
    picture.append(draw("text", { class: "answer", x: size / 2, y: size + 8, "text-anchor": "middle" }, said.join(" ")),
      draw("text", { class: "verdict", x: size / 2, y: size + 26, "text-anchor": "middle", "font-weight": 700 }, verdict));
    return picture;
  },
  rows: (recording) => [["answer", "valid", "new", "times"], ...recording.strategies.map((one) => [one.words, one.solved, one.novel, one.count])],
};
