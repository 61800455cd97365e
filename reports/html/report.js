"use strict";
const SHOWN = 10;
const search = document.getElementById("search");
const every = document.getElementById("every-workload");
const fields = search ? Array.from(search.querySelectorAll("[data-of]")) : [];

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
      fold(table);
    });
  });
}

function keyOf(cell, isNumber) {
  if (!isNumber) return cell.textContent.trim();
  return cell.dataset.v === undefined ? null : Number(cell.dataset.v);
}

// Unknown values come last in either order.
function compare(a, b, sign) {
  if (a === null || b === null) return (a === null) - (b === null);
  return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
}

function rowsOf(table) {
  return Array.from(table.querySelectorAll("tbody:not(.sum) > tr"));
}

// Long tables show their first rows, and all of them on request. A search hides other rows, and sums too, which are for all rows.
function fold(table, wanted = table.wanted ?? (() => true)) {
  if (!table.classList.contains("folding")) return;
  table.wanted = wanted;
  const rows = rowsOf(table);
  for (const row of rows) row.hidden = !wanted(row);
  const found = rows.filter((row) => !row.hidden);
  // print all rows found
  found.forEach((row, at) => row.classList.toggle("folded", !table.isOpen && at >= SHOWN));
  for (const body of table.querySelectorAll("tbody.sum")) body.hidden = found.length < rows.length;
  const place = table.parentElement;
  let button = place.nextElementSibling?.classList.contains("more") ? place.nextElementSibling : null;
  if (!button && found.length > SHOWN) {
    button = document.createElement("button");
    button.type = "button";
    button.className = "more";
    button.addEventListener("click", () => {
      table.isOpen = !table.isOpen;
      fold(table);
    });
    place.after(button);
  }
  if (!button) return;
  button.hidden = found.length <= SHOWN;
  button.setAttribute("aria-expanded", String(Boolean(table.isOpen)));
  button.textContent = table.isOpen ? `Show the first ${SHOWN}` : `Show all ${found.length.toLocaleString("en")}`;
}

// Names of teams, namespaces, workloads and GPU models link to their workloads; the address keeps the search.
function columnsOf(table) {
  return Array.from(table.tHead.rows[0].cells, (head, column) => [head.dataset.of, column]).filter(([of]) => of);
}

function linked(table) {
  const places = new Map(columnsOf(table));
  for (const [of, column] of places) {
    if (of === "cluster") continue;
    for (const row of rowsOf(table)) {
      const cell = row.cells[column];
      const name = cell.textContent.trim();
      if (!name || cell.querySelector("a") || !known.get(of)?.has(name)) continue;
      const link = document.createElement("a");
      const text = (other) => (places.has(other) ? row.cells[places.get(other)].textContent.trim() : "");
      const asked = of === "workload" ? [[of, `"${name}"`], ["namespace", text("namespace")], ["cluster", text("cluster")]] : [[of, name]];
      link.href = `#${new URLSearchParams(asked.filter(([, value]) => value))}`;
      link.append(...cell.childNodes);
      cell.append(link);
    }
  }
}

function searched() {
  // a link to a section keeps the search
  if (location.hash && !location.hash.includes("=")) return find();
  const asked = new URLSearchParams(location.hash.slice(1));
  const isSearch = fields.some((field) => asked.get(field.dataset.of || "text"));
  for (const field of fields) field.value = asked.get(field.dataset.of || "text") ?? "";
  if (isSearch) search.scrollIntoView({ block: "start" });
  find();
}

function find() {
  const places = new Map(columnsOf(every));
  const asked = fields.map((field) => [field, field.value.trim()]);
  const text = (row, of) => (row.cells[places.get(of)]?.textContent ?? "").trim();
  const holds = (row, of, value) => text(row, of).toLowerCase().includes(value.toLowerCase());
  const isFound = ([field, value], row) => {
    if (!value) return true;
    const of = field.dataset.of;
    if (!of) return Array.from(places.keys()).some((one) => holds(row, one, value));
    // a choice, and text in quotes, must match exactly
    const exact = field.tagName === "SELECT" ? value : value.match(/^"(.*)"$/)?.[1];
    return exact === undefined ? holds(row, of, value) : text(row, of) === exact;
  };
  fold(every, (row) => asked.every((one) => isFound(one, row)));
  const rows = rowsOf(every);
  const found = rows.filter((row) => !row.hidden);
  const sums = ["GPU-hours", "Cost"].map((title) => sumOf(found, title)).filter(Boolean);
  search.querySelector("output").textContent = [`${found.length.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows`, ...sums].join(", ");
}

// The sum of a column's exact values, formatted like the page.
function sumOf(rows, title) {
  const column = Array.from(every.tHead.rows[0].cells).findIndex((head) => head.textContent.trim() === title);
  if (column < 0 || !rows.length) return "";
  let nanos = 0n;
  for (const row of rows) {
    const [whole, part = ""] = (row.cells[column].dataset.v ?? "0").split(".");
    const sign = whole.startsWith("-") ? -1n : 1n;
    nanos += BigInt(whole) * 1000000000n + sign * BigInt(part.padEnd(9, "0").slice(0, 9));
  }
  const shown = rows[0].cells[column].textContent.trim();
  const decimals = shown.match(/\.(\d+)$/)?.[1].length ?? 0;
  const unit = 10n ** BigInt(9 - decimals);
  const rounded = (nanos + (nanos < 0n ? -unit : unit) / 2n) / unit;
  const digits = (rounded < 0n ? -rounded : rounded).toString().padStart(decimals + 1, "0");
  const cut = digits.length - decimals;
  const number = BigInt(digits.slice(0, cut)).toLocaleString("en") + (decimals ? `.${digits.slice(cut)}` : "");
  const symbol = shown.match(/^-?([^\d-]*)/)[1];
  return `${rounded < 0n ? "-" : ""}${symbol}${number}${symbol ? "" : ` ${title}`}`;
}

const known = new Map();
for (const table of document.querySelectorAll("table.folding")) fold(table);
if (search && every) {
  for (const [of, column] of columnsOf(every)) {
    const names = rowsOf(every).map((row) => row.cells[column].textContent.trim());
    known.set(of, new Set(names.filter(Boolean)));
    const field = search.querySelector(`select[data-of="${of}"]`);
    for (const name of field ? Array.from(known.get(of)).sort((a, b) => a.localeCompare(b, "en", { numeric: true })) : []) {
      const choice = document.createElement("option");
      choice.textContent = name;
      choice.value = name;
      field.append(choice);
    }
  }
  for (const table of document.querySelectorAll("table.folding")) linked(table);
  for (const field of fields) {
    field.addEventListener("input", () => {
      const asked = fields.map((one) => [one.dataset.of || "text", one.value.trim()]);
      history.replaceState(null, "", `#${new URLSearchParams(asked.filter(([, value]) => value))}`);
      find();
    });
  }
  search.querySelector("button").addEventListener("click", () => {
    history.replaceState(null, "", "#workloads");
    for (const field of fields) field.value = "";
    find();
  });
  search.hidden = false;
  addEventListener("hashchange", searched);
  searched();
}
