// What a page opens with: one sentence, one picture, and what is not clear in one line.
// What tasks add to a page, by the name of the metric that it shows: {hero, good, diverse}, each (comparison) => element.
const taskSections = {};

// The names of methods in their colours.
function coloured(text, methods) {
  const byLabel = new Map(methods.map((method) => [method.label, method]));
  const names = [...byLabel.keys()].sort((one, other) => other.length - one.length).map((name) => name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  if (!names.length) return [text];
  return text.split(new RegExp(`(?<![\\w-])(${names.join("|")})(?![\\w-])`)).filter((part) => part !== "")
    .map((part) => (byLabel.has(part) ? make("span", { class: part.length < 20 ? "whole" : null, style: `color:${methodColour(byLabel.get(part))}` }, part) : part));
}

const leadMethods = (comparison) => comparison.headline.methods.map((label) => comparison.methods.find((method) => method.label === label)).filter(Boolean);

function heroPicture(comparison) {
  const own = guarded(() => taskSections[comparison.section]?.hero?.(comparison));
  if (own && !Array.isArray(own)) return own;
  const kinds = `distinct ${comparison.words.successes || `${comparison.strategies} that succeed`}`;
  const panels = comparison.successKnown
    ? [metricPanel(comparison, "success in one attempt, %", "success", { percent: true }), metricPanel(comparison, `${kinds}, a configuration`, "distinct_successful_strategies")]
    : [metricPanel(comparison, "return of an episode", "return", { digits: 2 }), metricPanel(comparison, `distinct ${comparison.strategies}, a configuration`, "distinct_strategies")];
  const shown = panels.filter(Boolean);
  if (comparison.headline.metric.startsWith("distinct")) shown.reverse();
  return shown.length ? barChart({ title: "In short", panels: shown, heading: false }) : null;
}

// A number stays on one line with its unit.
const tight = (text) => text.replace(/ (%|points)/g, "\u00a0$1");

function hero(comparison, heading, others = null) {
  const { sentence, lines } = comparison.headline;
  return make("section", { class: "hero", "data-task": comparison.title, "aria-label": `${comparison.title} in short` },
    make("div", { class: "claim" }, make(heading, {}, ...coloured(tight(sentence), leadMethods(comparison))),
      make("ul", {}, ...lines.map((line) => make("li", {}, tight(line)))), others),
    heroPicture(comparison));
}
