// The page: the headline, then a part for each task, then in each part a section for each question.
const main = document.getElementById("main");
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const toggle = make("button", { type: "button", onclick: () => theme(root.dataset.theme === "dark" ? "light" : "dark") });

function theme(name) {
  root.dataset.theme = name;
  toggle.textContent = name === "dark" ? "Light" : "Dark";
  toggle.setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colours`);
}

theme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", (event) => theme(event.matches ? "dark" : "light"));

function figuresOf(...figures) {
  const shown = figures.flat().filter(Boolean);
  return shown.length ? make("div", { class: "figures" }, ...shown) : null;
}

function diversity(comparison) {
  const panels = [metricPanel(comparison, `distinct ${comparison.strategies}, a configuration`, "distinct_strategies"),
    metricPanel(comparison, "of them succeed", "distinct_successful_strategies")].filter(Boolean);
  return panels.length ? barChart({ title: `Distinct ${comparison.strategies}`, panels }) : null;
}

// Each question with what the task has to say to it; one without an answer is left out.
function sectionsOf(comparison) {
  const own = taskSections[comparison.section] || {};
  const look = guarded(() => viewer(comparison));
  const watched = Array.isArray(look) ? look : look.section;
  return [
    ["How good is it?", [figuresOf(passCurves(comparison), guarded(() => own.good?.(comparison)), scanChart(comparison)), ...comparison.tables.good.map(tableOf)]],
    ["How diverse is it?", own.diverse ? [...(guarded(() => own.diverse(comparison)) || []), ...comparison.tables.diverse.map(tableOf)]
      : [figuresOf(diversity(comparison), comparison.tables.diverse.map(tableOf))]],
    ["How did it get there?", learningCurves(comparison) || []],
    ["Who solves what?", heatmap(comparison, look.open || (() => {})) || []],
    ["Watch it", watched || []],
  ].map(([title, parts]) => [title, parts.filter(Boolean)]).filter(([, parts]) => parts.length);
}

function partOf(comparison, number) {
  const sections = sectionsOf(comparison);
  const name = (at) => `part-${number}-${at}`;
  const facts = `${comparison.configurations.length} configurations, at most ${comparison.horizon} steps per attempt.`;
  return make("section", { class: "part", id: `part-${number}`, "data-task": comparison.title, "aria-label": comparison.title },
    number ? hero(comparison, "h2") : make("h2", {}, comparison.headline.title),
    make("p", { class: "note" }, number ? `${comparison.headline.title}: ${facts}` : facts),
    make("nav", { "aria-label": `Questions about ${comparison.title}` },
      make("ul", { class: "questions" }, ...sections.map(([title], at) => make("li", {}, make("a", { href: `#${name(at)}` }, title))))),
    ...sections.map(([title, parts], at) => make("section", { id: name(at), "aria-label": `${comparison.title}: ${title}` }, make("h3", {}, title), ...parts)));
}

document.getElementById("controls").append(toggle);
const [lead, ...rest] = data.comparisons;
const others = rest.length ? make("nav", { class: "others", "aria-label": "Other tasks" },
  ...rest.map((comparison, at) => make("a", { href: `#part-${at + 1}` }, ...coloured(tight(comparison.headline.sentence), leadMethods(comparison)), "\u00a0↓"))) : null;
main.replaceChildren(hero(lead, "h1", others));
if (data.summary.length) main.append(make("div", { class: "summary" }, ...data.summary.map((line) => make("p", {}, line))));
if (data.problems.length) {
  main.append(make("div", { class: "problems", role: "note", "aria-label": "Remarks" }, make("ul", {}, ...data.problems.map((line) => make("li", {}, line)))));
}
main.append(...data.comparisons.map(partOf));
const hashes = data.comparisons.flatMap((one) => one.methods.flatMap((method) => method.hashes.map((hash) => `${one.title} ${method.label} ${hash}`)));
document.getElementById("footer").textContent = `polychromic ${data.version}. Policies: ${hashes.join("; ") || "none evaluated"}.`;
