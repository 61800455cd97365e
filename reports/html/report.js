"use strict";
// Sorting of tables. Rows are sorted within their part of the table; sums stay where they are.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = Array.from(table.tHead.rows[0].cells);
  heads.forEach((head, column) => {
    if (!head.dataset.sort) return;
    const isNumber = head.dataset.sort === "number";
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const first = isNumber ? "descending" : "ascending";
      const second = isNumber ? "ascending" : "descending";
      const order = head.getAttribute("aria-sort") === first ? second : first;
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      for (const body of table.tBodies) {
        if (body.classList.contains("sum")) continue;
        const rows = Array.from(body.rows, (row) => [row, keyOf(row.cells[column], isNumber)]);
        rows.sort(([, a], [, b]) => compare(a, b, sign));
        body.append(...rows.map(([row]) => row));
      }
    });
  });
}

function keyOf(cell, isNumber) {
  if (!isNumber) return cell.textContent.trim();
  return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
}

// What is not known comes last, whichever way the rest is sorted.
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
}
