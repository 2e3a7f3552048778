// The rollout viewer: one configuration, two policies side by side, their distinct strategies, step by step.
function viewer(comparison) {
  const able = comparison.methods.map((method, index) => index).filter((index) => comparison.methods[index].recordings);
  const section = make("section", { id: "viewer" }, make("h2", {}, "Rollouts"));
  if (!able.length || !comparison.gridShape.length) {
    section.append(make("p", { class: "note" }, "No episodes were recorded for these runs."));
    return { section, open: () => {} };
  }
  const state = { task: 0, moment: 0, timer: null, panels: [{ method: able[0], chosen: 0 }, { method: able.at(-1), chosen: 0 }] };
  const recordingOf = (panel) => comparison.methods[panel.method].recordings[state.task];
  const stepsOf = (panel) => { const found = recordingOf(panel).strategies[panel.chosen]; return found ? found.steps : 0; };
  const longest = () => Math.max(1, ...state.panels.map(stepsOf));

  const slider = make("input", { type: "range", min: 0, value: 0, "aria-label": "Step", oninput: () => go(Number(slider.value)) });
  const counter = make("span", { class: "step", "aria-live": "off" });
  const player = make("button", { type: "button", onclick: () => (state.timer ? stop() : start()) });
  const mission = make("span", { class: "mission" });
  const tasks = make("span");
  const panels = make("div", { class: "panels", tabindex: "0", role: "group", "aria-label": "Rollouts: space plays, the arrow keys step" });

  function panelOf(panel, side) {
    const recording = recordingOf(panel);
    const strategies = recording.strategies.map((one, number) => make("li", {},
      make("button", { type: "button", "aria-pressed": String(number === panel.chosen), onclick: () => { panel.chosen = number; go(0); } },
        make("span", { class: "swatch", style: `background:${STRATEGY_COLOURS[number]}` }),
        `rooms ${one.rooms.map((room) => room + 1).join(" → ")}: ${one.solved ? `solved in ${one.steps} steps` : "not solved"}, ${one.successes} of ${one.count} attempts succeed`)));
    const more = recording.distinct - recording.strategies.length;
    const picture = drawLevel(comparison, recording, panel.chosen, state.moment);
    const label = comparison.methods[panel.method].label;
    picture.setAttribute("aria-label", `${label}, configuration ${state.task + 1}, step ${Math.min(state.moment, stepsOf(panel))}`);
    const rows = [["strategy", "rooms", "solved", "step", "x", "y", "direction"], ...recording.strategies.flatMap((one, number) =>
      Array.from({ length: one.steps + 1 }, (_, at) => [number + 1, one.rooms.map((room) => room + 1).join(" "), one.solved, at, ...one.path.slice(3 * at, 3 * at + 3)]))];
    return make("div", { class: "panel" },
      select(side, able.map((index) => [index, comparison.methods[index].label]), panel.method, (value) => { panel.method = Number(value); panel.chosen = 0; go(0); }),
      picture,
      make("p", { class: "note" }, `${recording.distinct} distinct ${comparison.strategies}${more > 0 ? `, ${recording.strategies.length} shown` : ""}; dashed paths did not solve it.`),
      make("ul", { class: "strategies" }, ...strategies),
      make("figcaption", {}, downloads(`rollouts ${label} configuration ${state.task + 1}`, () => drawLevel(comparison, recording, panel.chosen, state.moment), rows)));
  }

  // Only what changed is replaced, so that the focus stays where the user put it.
  function show(onlyPictures = false) {
    counter.textContent = `step ${state.moment} of ${longest()}`;
    slider.max = longest();
    slider.value = state.moment;
    player.textContent = state.timer ? "Pause" : "Play";
    mission.textContent = comparison.configurations[state.task].mission;
    if (onlyPictures) {
      [...panels.children].forEach((box, side) => box.querySelector("svg").replaceWith(panelOf(state.panels[side], "").querySelector("svg")));
      return;
    }
    const held = document.activeElement && panels.contains(document.activeElement)
      ? [...panels.querySelectorAll("button, select")].indexOf(document.activeElement) : -1;
    panels.replaceChildren(...state.panels.map((panel, side) => panelOf(panel, side ? "Right" : "Left")));
    tasks.replaceChildren(select("Configuration", comparison.configurations.map((_, task) => [task, configurationName(comparison, task)]), state.task, choose));
    if (held >= 0) panels.querySelectorAll("button, select")[held]?.focus();
  }

  function go(moment, onlyPictures = false) {
    state.moment = Math.max(0, Math.min(longest(), moment));
    show(onlyPictures);
  }

  function choose(task) {
    state.task = Number(task);
    for (const panel of state.panels) panel.chosen = 0;
    go(longest());
    tasks.querySelector("select").focus();
  }

  function stop() { clearInterval(state.timer); state.timer = null; show(true); }

  function start() {
    if (state.moment >= longest()) state.moment = 0;
    state.timer = setInterval(() => (state.moment >= longest() || !section.isConnected ? stop() : go(state.moment + 1, true)), 150);
    show(true);
  }

  section.append(
    make("p", { class: "note" }, "Each colour is a strategy: a set of rooms visited. Pick a strategy to step through it. With the focus on the grids space plays; there and on the buttons the arrow keys step."),
    make("div", { class: "viewer-controls" }, tasks, mission),
    make("div", { class: "viewer-controls" },
      make("button", { type: "button", "aria-label": "Previous step", onclick: () => go(state.moment - 1, true) }, "◀"), player,
      make("button", { type: "button", "aria-label": "Next step", onclick: () => go(state.moment + 1, true) }, "▶"), slider, counter),
    panels);
  section.addEventListener("keydown", (event) => {
    if (event.target.matches("select, input") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowRight") go(state.moment + 1, true);
    else if (event.key === "ArrowLeft") go(state.moment - 1, true);
    else if (event.key === " " && !event.target.matches("button")) state.timer ? stop() : start();
    else return;
    event.preventDefault();
  });
  state.moment = longest();
  show();
  return {
    section,
    open: (task, method) => {
      state.task = task;
      if (able.includes(method)) state.panels[1].method = method;
      choose(task);
      section.scrollIntoView({ block: "start" });
    },
  };
}
