// Sorting, filtering and a quicker tooltip. The page is complete without it.
"use strict";
{
  const table = document.getElementById("sites");
  if (table) {
    const body = table.tBodies[0], rows = [...body.rows], few = +table.dataset.rows;
    const filter = document.getElementById("filter"), all = document.getElementById("all"), count = document.getElementById("count");
    let limit = few;
    const show = () => {
      const wanted = filter.value.toLowerCase();
      let seen = 0;
      for (const row of body.rows) {
        const match = !wanted || row.cells[0].textContent.toLowerCase().includes(wanted);
        row.classList.toggle("more", !match || ++seen > limit);
      }
      count.textContent = wanted ? seen + " of " + rows.length : "";
      all.hidden = limit >= rows.length || seen <= limit;
    };
    const key = (row, n) => { const cell = row.cells[n]; return "v" in cell.dataset ? +cell.dataset.v : cell.textContent; };
    [...table.tHead.rows[0].cells].forEach((head, n) => head.firstChild.addEventListener("click", () => {
      // Figures begin with the largest, words with the first.
      const number = "v" in rows[0].cells[n].dataset;
      const now = head.getAttribute("aria-sort"), down = now ? now !== "descending" : number;
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sign = down ? -1 : 1;
      const keyed = rows.map(row => [key(row, n), row]);
      keyed.sort(([a], [b]) => sign * (number ? a - b : a.localeCompare(b)));
      body.append(...keyed.map(([, row]) => row));
      show();
    }));
    table.tHead.rows[0].cells[1].setAttribute("aria-sort", "descending");
    filter.addEventListener("input", show);
    all.addEventListener("click", () => { limit = Infinity; show(); });
    filter.parentNode.hidden = false;
    show();
  }

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
