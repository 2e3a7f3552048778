// Elements, text and files. All text goes through textContent, so nothing in the data can become markup.
const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const data = JSON.parse(document.getElementById("data").textContent);
// Pictures are drawn smaller on a phone, so that their text is not scaled down with them.
const NARROW = innerWidth < 600;

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => ![null, undefined, false, ""].includes(child)));
  return element;
}

function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
}

// What a task draws from its own data: if that is damaged, the rest of the page stays.
function guarded(drawn) {
  try {
    return drawn();
  } catch (error) {
    return [make("p", { class: "note" }, `This cannot be drawn: its data are damaged (${error.message}).`)];
  }
}

const methodColour = (method) => `var(--c${method.colour % 8})`;
const strategyColour = (number) => `var(--s${number % 6})`;
const round = (value, digits = 3) => (value === null || value === undefined ? "–" : Number(value).toFixed(digits));
const percent = (value) => `${round(100 * value, 1)} %`;
const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}…` : text);

const shortLabel = (label) => label.replace(/best temperature \((.*)\)$/, "best T $1");

function select(label, options, chosen, change) {
  const box = make("select", { onchange: () => change(box.value) });
  for (const [value, text] of options) {
    const option = make("option", { value }, text);
    option.selected = String(value) === String(chosen);
    box.append(option);
  }
  return make("label", {}, `${label} `, box);
}

const configurationName = (comparison, number) => {
  const { seed } = comparison.configurations[number];
  return seed === null ? String(number + 1) : `${number + 1} (seed ${seed})`;
};

function save(name, type, text) {
  const link = make("a", { href: URL.createObjectURL(new Blob([text], { type })), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

// A figure on its own has no style sheet: colours are written out, and the background is drawn.
function svgText(picture) {
  const copy = picture.cloneNode(true);
  copy.setAttribute("xmlns", SVG_NAMESPACE);
  copy.removeAttribute("tabindex");
  copy.prepend(draw("rect", { width: "100%", height: "100%", fill: "var(--page)" }));
  for (const text of copy.querySelectorAll("text")) {
    text.setAttribute("font-family", "system-ui, sans-serif");
    text.setAttribute("font-size", text.getAttribute("font-size") || "12");
    if (!text.hasAttribute("fill")) text.setAttribute("fill", "var(--text)");
  }
  const probe = make("span");
  document.body.append(probe);
  const written = new XMLSerializer().serializeToString(copy).replace(/var\((--[\w-]+)\)/g, (_, name) => {
    probe.style.color = `var(${name})`;
    return getComputedStyle(probe).color;
  });
  probe.remove();
  return written;
}

// A cell that a spreadsheet would run as a formula is made plain text.
function csvCell(value) {
  let text = value === null || value === undefined ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && text !== "–") text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const csvText = (rows) => rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
const fileName = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

// picture: a function that returns the figure as it is now, or null. rows: of the data, or a function that returns them.
function downloads(title, picture, rows) {
  const button = (kind, type, text) => make("button", { type: "button", "aria-label": `Download ${title} as ${kind}`, onclick: (event) => {
    const task = data.comparisons.length > 1 ? event.target.closest("[data-task]").dataset.task : "";
    save(`${fileName(`${task} ${title}`)}.${kind.toLowerCase()}`, type, text());
  } }, kind);
  return make("span", { class: "downloads" },
    picture && button("SVG", "image/svg+xml", () => svgText(picture())),
    button("CSV", "text/csv", () => csvText(typeof rows === "function" ? rows() : rows)));
}
