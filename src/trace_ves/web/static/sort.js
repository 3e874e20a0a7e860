// Tables sort by any column: a button behind each heading, the state in aria-sort. Up, down, and as it was.

const chosen = new Map(); // by table: the column and the direction, so that a page that follows its files keeps them
const original = new WeakMap();

function valueOf(row, column) {
  const cell = row.children[column];
  const text = (cell?.dataset.value ?? cell?.textContent ?? "").trim();
  const found = text.replaceAll(",", "").match(/^[^\d\w]*?([+-]?\d+(\.\d+)?)/);
  return { text, number: found && !/^\d{4}-\d\d/.test(text) ? Number(found[1]) : NaN };
}

function compare(a, b, down) {
  const empty = (each) => each.text === "" || each.text === "--" || each.text === "?";
  if (empty(a) || empty(b)) return empty(a) - empty(b);
  const both = !Number.isNaN(a.number) && !Number.isNaN(b.number);
  const order = both ? a.number - b.number : a.text.localeCompare(b.text, undefined, { numeric: true });
  return down ? -order : order;
}

function apply(table, column, direction) {
  if (!original.has(table)) original.set(table, [...table.tBodies].map((body) => [body, [...body.rows]]));
  const bodies = original.get(table);
  for (const th of table.querySelectorAll("th[data-sort]")) {
    const now = direction && th.cellIndex === column;
    th.setAttribute("aria-sort", now ? direction : "none");
    th.querySelector(".sort").textContent = now ? (direction === "ascending" ? "▴" : "▾") : "⇅";
  }
  if (!direction) {
    for (const [body, rows] of bodies) body.replaceChildren(...rows);
    return;
  }
  // headings of sections make no sense between sorted rows; lines that belong to a row stay behind it
  const rows = bodies.flatMap(([, all]) => all);
  const kept = rows.filter((row) => !row.matches(".heading, .problems"));
  const behind = new Map(rows.filter((row) => row.matches(".problems")).map((row) => [rows[rows.indexOf(row) - 1], row]));
  const values = new Map(kept.map((row) => [row, valueOf(row, column)]));
  kept.sort((a, b) => compare(values.get(a), values.get(b), direction === "descending"));
  for (const [body] of bodies) body.replaceChildren();
  bodies[0]?.[0].replaceChildren(...kept.flatMap((row) => (behind.has(row) ? [row, behind.get(row)] : [row])));
}

function makeSortable(root = document) {
  for (const table of root.querySelectorAll("table.sortable")) {
    for (const th of table.querySelectorAll("th[data-sort]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.textContent = "⇅";
      button.title = `Sort by ${th.dataset.sort}`;
      button.setAttribute("aria-label", button.title);
      th.setAttribute("aria-sort", "none");
      th.append(button);
      button.addEventListener("click", () => {
        const next = { none: "ascending", ascending: "descending", descending: "" }[th.getAttribute("aria-sort")];
        chosen.set(table.dataset.table, [th.cellIndex, next]);
        apply(table, th.cellIndex, next);
      });
    }
    const before = chosen.get(table.dataset.table);
    if (before?.[1]) apply(table, ...before);
  }
}

makeSortable();
document.addEventListener("replaced", (event) => makeSortable(event.detail));
