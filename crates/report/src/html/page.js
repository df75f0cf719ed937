// Sorting, filtering and a quicker tooltip. The page is complete without it.
"use strict";
for (const table of document.querySelectorAll("table[data-rows]")) {
  const body = table.tBodies[0], rows = [...body.rows], few = +table.dataset.rows, heads = [...table.tHead.rows[0].cells];
  const tools = table.closest("section").querySelector(".tools"), filter = tools.querySelector("input");
  const all = tools.querySelector(".all"), count = tools.querySelector(".count");
  const names = new Map(rows.map(row => [row, row.cells[0].textContent.toLowerCase()]));
  let order = rows, limit = few;
  const show = () => {
    const wanted = filter.value.toLowerCase();
    let seen = 0;
    for (const row of order) {
      const match = !wanted || names.get(row).includes(wanted);
      row.classList.toggle("more", !match || ++seen > limit);
    }
    count.textContent = wanted ? seen + " of " + rows.length : "";
    all.hidden = seen <= limit;
  };
  const key = (row, n) => { const cell = row.cells[n]; return "v" in cell.dataset ? +cell.dataset.v : cell.textContent; };
  heads.forEach((head, n) => head.firstChild.addEventListener("click", () => {
    // Figures begin with the largest, words with the first.
    const number = "v" in rows[0].cells[n].dataset;
    const now = head.getAttribute("aria-sort"), down = now ? now !== "descending" : number;
    for (const other of heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", down ? "descending" : "ascending");
    const sign = down ? -1 : 1;
    const keyed = rows.map(row => [key(row, n), row]);
    keyed.sort(([a], [b]) => sign * (number ? a - b : a.localeCompare(b)));
    order = keyed.map(([, row]) => row);
    body.append(...order);
    show();
  }));
  filter.addEventListener("input", show);
  all.addEventListener("click", () => { limit = Infinity; show(); });
  tools.hidden = false;
  show();
}
{
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.hidden = true;
  document.body.append(tip);
  for (const title of document.querySelectorAll("svg title")) {
    const mark = title.parentNode;
    mark.dataset.tip = title.textContent;
    mark.setAttribute("aria-label", title.textContent);
    title.remove();
  }
  document.addEventListener("pointermove", event => {
    const mark = event.target.closest && event.target.closest("[data-tip]");
    tip.hidden = !mark;
    if (!mark) return;
    tip.textContent = mark.dataset.tip;
    const beyond = event.clientX + 16 + tip.offsetWidth > innerWidth;
    tip.style.left = (beyond ? Math.max(4, event.clientX - 12 - tip.offsetWidth) : event.clientX + 14) + "px";
    tip.style.top = Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 4) + "px";
  });
}
