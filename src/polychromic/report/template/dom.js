// Elements, text and files. All text goes through textContent, so nothing in the data can become markup.
const SVG_NAMESPACE = "http://www.w3.org/2000/svg";
const data = JSON.parse(document.getElementById("data").textContent);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.filter((child) => child !== null));
  return element;
}

function make(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function draw(name, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG_NAMESPACE, name), attributes, children);
}

const colour = (index) => `var(--c${index % 8})`;
const round = (value, digits = 3) => (value === null || value === undefined ? "–" : Number(value).toFixed(digits));

function select(label, options, chosen, change) {
  const box = make("select", { onchange: () => change(box.value) });
  for (const [value, text] of options) {
    const option = make("option", { value }, text);
    option.selected = String(value) === String(chosen);
    box.append(option);
  }
  return make("label", {}, `${label} `, box);
}

const configurationName = (comparison, task) => {
  const { seed } = comparison.configurations[task];
  return seed === null ? String(task + 1) : `${task + 1} (level seed ${seed})`;
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
  const styles = getComputedStyle(document.documentElement);
  return new XMLSerializer().serializeToString(copy)
    .replace(/var\((--[\w-]+)\)/g, (_, name) => styles.getPropertyValue(name).trim());
}

// A cell that a spreadsheet would run as a formula is made plain text.
function csvCell(value) {
  let text = value === null || value === undefined ? "" : String(value);
  if (typeof value === "string" && /^[=+\-@\t\r]/.test(text) && text !== "–") text = `'${text}`;
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

const csvText = (rows) => rows.map((row) => row.map(csvCell).join(",")).join("\r\n") + "\r\n";
const fileName = (title) => title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "");

// picture: a function that returns the figure as it is now, or null.
function downloads(title, picture, rows) {
  const name = fileName(title);
  const buttons = [];
  if (picture) {
    buttons.push(make("button", { type: "button", "aria-label": `Download ${title} as SVG`,
      onclick: () => save(`${name}.svg`, "image/svg+xml", svgText(picture())) }, "SVG"));
  }
  buttons.push(make("button", { type: "button", "aria-label": `Download ${title} as CSV`,
    onclick: () => save(`${name}.csv`, "text/csv", csvText(rows)) }, "CSV"));
  return make("span", { class: "downloads" }, ...buttons);
}
