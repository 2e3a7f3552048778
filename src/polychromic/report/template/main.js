// The page: theme, choice of task, and the sections of one comparison.
const main = document.getElementById("main");
const root = document.documentElement;
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function theme(name) {
  root.dataset.theme = name;
  toggle.textContent = name === "dark" ? "Light" : "Dark";
  toggle.setAttribute("aria-label", `Switch to ${name === "dark" ? "light" : "dark"} colours`);
}

const toggle = make("button", { type: "button", onclick: () => theme(root.dataset.theme === "dark" ? "light" : "dark") });
theme(prefersDark.matches ? "dark" : "light");
prefersDark.addEventListener("change", (event) => theme(event.matches ? "dark" : "light"));

const sections = make("div");

function showComparison(number) {
  const comparison = data.comparisons[number];
  const look = viewer(comparison);
  sections.replaceChildren(
    make("h2", {}, `${comparison.title}: ${comparison.configurations.length} configurations, H = ${comparison.horizon}`),
    legendOf(comparison.methods),
    (taskSections[comparison.section] || (() => ""))(comparison) || "",
    make("div", { class: "figures" }, passCurves(comparison), sweepChart(comparison)),
    learningCurves(comparison), heatmap(comparison, look.open), look.section);
}

const controls = document.getElementById("controls");
if (data.comparisons.length > 1) {
  controls.append(select("Task", data.comparisons.map((one, number) => [number, one.title]), 0, (value) => showComparison(Number(value))));
}
controls.append(toggle);
main.replaceChildren();
if (data.summary.length) main.append(make("div", { class: "summary" }, ...data.summary.map((line) => make("p", {}, line))));
if (data.problems.length) {
  main.append(make("div", { class: "problems", role: "note" }, make("ul", {}, ...data.problems.map((line) => make("li", {}, line)))));
}
main.append(...data.tables.map(tableOf), sections);
showComparison(0);
const hashes = data.comparisons.flatMap((one) => one.methods.flatMap((method) => method.hashes.map((hash) => `${one.title} ${method.label} ${hash}`)));
document.getElementById("footer").textContent = `polychromic ${data.version}. Policies: ${hashes.join("; ") || "none evaluated"}.`;
