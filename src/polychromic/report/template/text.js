// Episodes of worlds that have no picture: what the world says of itself at each moment, and the action taken.
viewers.text = {
  note: "What the world says of itself, moment by moment.",
  said: (one) => `${one.rooms.length > 1 ? `places ${one.rooms.slice(0, 12).join(" → ")}${one.rooms.length > 12 ? " …" : ""}: ` : ""}${one.solved === undefined ? `return ${round(one.return, 2)}` : one.solved ? "success" : "no success"} in ${one.steps} steps, ${one.count} ${one.count === 1 ? "attempt" : "attempts"}`,
  picture({ recording, chosen, moment }) {
    const one = recording.strategies[chosen];
    if (!one) return make("pre", { role: "img" }, "No episode of this policy was kept here.");
    const at = (one.at || []).findLastIndex((when) => when <= moment);
    const lines = at >= 0 ? [one.texts[at]] : [];
    const actions = one.actions || [];
    lines.push(moment < actions.length ? `next action: ${[actions[moment]].flat().join(", ")}` : "the end");
    const url = one.pictures?.[at];
    const image = url?.startsWith("data:image/png;base64,") ? make("img", { src: url, alt: `step ${one.at[at]}` }) : null;
    return make("pre", { role: image ? "group" : "img" }, image, lines.join("\n\n"));
  },
  rows: (recording) => [["strategy", "places", "success", "return", "step", "action"], ...recording.strategies.flatMap((one, number) =>
    (one.actions || []).map((action, step) => [number + 1, one.rooms.join(" "), one.solved, one.return, step, [action].flat().join(" ")]))],
};
