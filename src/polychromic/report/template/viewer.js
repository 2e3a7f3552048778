// Watch it: one configuration, two policies side by side, their distinct strategies, step by step.
// Who draws: by name, {note, said(strategy, comparison), picture({comparison, backdrop, recording, chosen, moment}), rows(recording)}.
const viewers = {};

function viewer(comparison) {
  const drawer = viewers[comparison.viewer];
  const able = comparison.methods.map((_, index) => index).filter((index) => comparison.methods[index].recordings?.some((one) => one.strategies.length));
  if (!drawer || !able.length) return { section: null, open: () => {} };
  const [first, second] = leadMethods(comparison).map((method) => comparison.methods.indexOf(method));
  const pick = (index, otherwise) => (able.includes(index) ? index : otherwise);
  const state = { task: 0, moment: 0, timer: null, panels: [{ method: pick(first, able[0]), chosen: 0 }, { method: pick(second, able.at(-1)), chosen: 0 }] };
  const recorded = comparison.configurations.map((_, task) => task).filter((task) => able.some((index) => comparison.methods[index].recordings[task].strategies.length));
  state.task = recorded[0];
  if (able.length === 1) state.panels.pop();
  const recordingOf = (panel) => comparison.methods[panel.method].recordings[state.task];
  const stepsOf = (panel) => recordingOf(panel).strategies[panel.chosen]?.steps ?? 0;
  const longest = () => Math.max(1, ...state.panels.map(stepsOf));

  const slider = make("input", { type: "range", min: 0, value: 0, "aria-label": "Step", oninput: () => go(Number(slider.value), true) });
  const counter = make("span", { class: "step", "aria-live": "off" });
  const player = make("button", { type: "button", onclick: () => (state.timer ? stop() : start()) });
  const mission = make("span", { class: "mission" });
  const tasks = make("span");
  const panels = make("div", { class: "panels", tabindex: "0", role: "group", "aria-label": "Episodes: space plays, the arrow keys step" });

  function pictureOf(panel) {
    const recording = recordingOf(panel);
    const picture = drawer.picture({ comparison, method: comparison.methods[panel.method], backdrop: comparison.backdrops[state.task] || {}, recording, chosen: panel.chosen, moment: Math.min(state.moment, stepsOf(panel)) });
    picture.classList.add("moment");
    picture.setAttribute("aria-label", `${comparison.methods[panel.method].label}, configuration ${state.task + 1}, step ${Math.min(state.moment, stepsOf(panel))}`);
    return picture;
  }

  function panelOf(panel, side) {
    const recording = recordingOf(panel);
    const strategies = recording.strategies.map((one, number) => make("li", {},
      make("button", { type: "button", "aria-pressed": String(number === panel.chosen), onclick: () => { panel.chosen = number; go(0); } },
        make("span", { class: "badge", style: `background:${strategyColour(number)}` }, String(number + 1)), drawer.said(one, comparison))));
    const more = recording.distinct - recording.strategies.length;
    const { label } = comparison.methods[panel.method];
    const picture = pictureOf(panel);
    const drawn = picture.localName === "svg" ? () => pictureOf(panel) : null;
    return make("div", { class: "panel" },
      select(side, able.map((index) => [index, comparison.methods[index].label]), panel.method, (value) => { panel.method = Number(value); panel.chosen = 0; go(0); }),
      picture,
      make("p", { class: "note" }, `Distinct ${comparison.strategies}: ${recording.distinct.toLocaleString("en")}${more > 0 ? `, ${recording.strategies.length} of them here` : ""}.`),
      make("ul", { class: "strategies" }, ...strategies),
      make("figcaption", {}, downloads(`episodes ${label} configuration ${state.task + 1}`, drawn, () => drawer.rows(recording))));
  }

  // Only what changed is replaced, so that the focus stays where the user put it.
  function show(onlyPictures = false) {
    counter.textContent = `step ${state.moment} of ${longest()}`;
    slider.max = longest();
    slider.value = state.moment;
    player.textContent = state.timer ? "Pause" : "Play";
    mission.textContent = comparison.configurations[state.task].mission;
    if (onlyPictures) {
      [...panels.children].forEach((box, side) => box.querySelector(".moment").replaceWith(pictureOf(state.panels[side])));
      return;
    }
    const held = document.activeElement && panels.contains(document.activeElement)
      ? [...panels.querySelectorAll("button, select")].indexOf(document.activeElement) : -1;
    panels.replaceChildren(...state.panels.map((panel, side) => panelOf(panel, side ? "Right" : "Left")));
    tasks.replaceChildren(select("Configuration", recorded.map((task) => [task, configurationName(comparison, task)]), state.task, choose));
    if (held >= 0) panels.querySelectorAll("button, select")[held]?.focus();
  }

  function go(moment, onlyPictures = false) {
    state.moment = Math.max(0, Math.min(longest(), moment));
    show(onlyPictures);
  }

  function choose(task) {
    state.task = Number(task);
    for (const panel of state.panels) panel.chosen = 0;
    go(0);
    tasks.querySelector("select").focus();
  }

  function stop() { clearInterval(state.timer); state.timer = null; show(true); }

  function start() {
    if (state.moment >= longest()) state.moment = 0;
    state.timer = setInterval(() => (state.moment >= longest() || !panels.isConnected ? stop() : go(state.moment + 1, true)), longest() < 20 ? 450 : 150);
    show(true);
  }

  const box = make("div", { class: "viewer" },
    make("p", { class: "note" }, `${drawer.note} Choose a strategy to step through it. With the focus on the pictures space plays; there and on the buttons the arrow keys step.`),
    make("div", { class: "viewer-controls" }, tasks, mission),
    make("div", { class: "viewer-controls" },
      make("button", { type: "button", "aria-label": "Previous step", onclick: () => go(state.moment - 1, true) }, "◀"), player,
      make("button", { type: "button", "aria-label": "Next step", onclick: () => go(state.moment + 1, true) }, "▶"), slider, counter),
    panels);
  box.addEventListener("keydown", (event) => {
    if (event.target.matches("select, input") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowRight") go(state.moment + 1, true);
    else if (event.key === "ArrowLeft") go(state.moment - 1, true);
    else if (event.key === " " && !event.target.matches("button")) state.timer ? stop() : start();
    else return;
    event.preventDefault();
  });
  show();
  return {
    section: [box],
    open: (task, method) => {
      if (!recorded.includes(task)) return;
      if (able.includes(method)) state.panels.at(-1).method = method;
      choose(task);
      box.scrollIntoView({ block: "start" });
    },
  };
}
