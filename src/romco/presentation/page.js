// Sorts by a click on a head, searches, and shows 50 rows before "more". It holds no data, and
// writes text, never HTML.
"use strict";
const FIRST_ROWS = 50;
for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0], rows = [...body.rows];
  const key = (row, column) => {
    const cell = row.cells[column], told = cell.dataset.value ?? cell.textContent.trim();
    const number = parseFloat(told.replaceAll(",", ""));
    return Number.isNaN(number) || cell.dataset.text !== undefined ? told : number;
  };
  const compare = (a, b) => typeof a === "number" && typeof b === "number" ? a - b
    : typeof a === "number" ? -1 : typeof b === "number" ? 1
    : a.localeCompare(b, undefined, { numeric: true });
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      rows.sort((a, b) => sign * compare(key(a, column), key(b, column)));
      body.append(...rows);
      show();
    });
  });
  let wanted = "", most = FIRST_ROWS;
  const more = document.createElement("button");
  more.type = "button";
  more.className = "more";
  more.addEventListener("click", () => { most = Infinity; show(); });
  const show = () => {
    const found = rows.filter((row) => row.textContent.toLowerCase().includes(wanted));
    for (const row of rows) row.hidden = true;
    for (const row of found.slice(0, most)) row.hidden = false;
    more.hidden = found.length <= most;
    more.textContent = `${(found.length - FIRST_ROWS).toLocaleString("en")} more`;
  };
  table.after(more);
  show();
  if (rows.length > 10) {
    const box = document.createElement("input");
    box.type = "search";
    box.placeholder = "search";
    box.setAttribute("aria-label", "search this table");
    box.addEventListener("input", () => {
      wanted = box.value.toLowerCase();
      show();
    });
    table.before(box);
  }
}
