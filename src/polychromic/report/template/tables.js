// Tables. One that is wider than the page scrolls inside its box, and says so.
function tableOf(table) {
  const body = table.rows.map((row) => make("tr", {}, ...row.map((cell, index) => make(index ? "td" : "th", { scope: index ? null : "row" }, cell))));
  const box = make("div", { class: "scroll", role: "region", "aria-label": table.title },
    make("table", {}, make("thead", {}, make("tr", {}, ...table.columns.map((name) => make("th", { scope: "col" }, name)))), make("tbody", {}, ...body)));
  new ResizeObserver(() => {
    const wide = box.scrollWidth > box.clientWidth + 1;
    box.classList.toggle("overflows", wide);
    if (wide) box.setAttribute("tabindex", "0");
    else box.removeAttribute("tabindex");
  }).observe(box);
  return make("figure", { class: "table", style: `max-width:${Math.max(30, 12 * table.columns.length)}rem` }, make("h4", {}, table.title), box,
    make("p", { class: "hint" }, "More columns to the right: scroll inside the table →"),
    make("figcaption", {}, make("p", { class: "note" }, table.note), downloads(table.title, null, [table.columns, ...table.rows])));
}
