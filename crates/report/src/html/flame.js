// The flame graph, and call stacks of the table's rows that are not in the page as text.
"use strict";
{
  const element = document.getElementById("data");
  const data = element ? JSON.parse(element.textContent) : { frames: [], sites: [] };
  const bytes = n => { for (const unit of ["B", "KiB", "MiB", "GiB", "TiB"]) { if (n < 1023.5 || unit === "TiB") return (n < 9.95 && unit !== "B" ? n.toFixed(1) : n.toFixed(0)) + " " + unit; n /= 1024; } };
  const count = n => { for (const unit of ["", "k", "M", "G", "T"]) { if (n < 999.5 || unit === "T") return (unit && n < 99.5 ? n.toFixed(1) : n.toFixed(0)) + unit; n /= 1000; } };
  const percent = share => share < 0.001 ? "<0.1%" : (share * 100).toFixed(1) + "%";

  // Without arguments and outer namespaces; templates and operators do not shorten by rule.
  const brief = name => /[<+]|operator/.test(name) ? name : name.replace(/\(.*/, "").split("::").slice(-2).join("::") || name;

  // One node for each call path; what is called from different places of a function is one frame.
  const root = { name: "all", detail: "", values: [0, 0, 0], children: new Map(), parent: null, depth: 0 };
  for (const site of data.sites) {
    let node = root;
    const add = () => site.values.forEach((value, n) => { node.values[n] += value; });
    add();
    for (const number of site.stack) {
      const [name, detail] = data.frames[number];
      let child = node.children.get(name);
      if (!child) node.children.set(name, child = { name, detail, values: [0, 0, 0], children: new Map(), parent: node, depth: node.depth + 1 });
      else if (child.detail !== detail) child.detail = "";
      node = child;
      add();
    }
  }

  const flame = document.getElementById("flame");
  if (flame) {
    const ROW = 21, graph = flame.querySelector(".graph"), search = flame.querySelector("input"), found = flame.querySelector(".found");
    const buttons = [...flame.querySelectorAll("[data-measure]")], reset = flame.querySelector(".reset");
    let measure = +buttons[0].dataset.measure, zoomed = root, drawn = [];
    const within = (node, outer) => { while (node && node !== outer) node = node.parent; return !!node; };
    const matches = node => search.value && node.name.toLowerCase().includes(search.value.toLowerCase());
    const tip = node => {
      const value = node.values[measure], shown = measure ? bytes(value) : "~" + count(value) + " misses";
      return node.name + (node.detail ? "\n" + node.detail : "") + "\n" + shown + ", " + percent(value / (root.values[measure] || 1)) + " of all";
    };
    const draw = () => {
      drawn = [];
      let deepest = 0;
      const whole = zoomed.values[measure] || 1;
      const put = (node, left, width, faded) => {
        const box = document.createElement("button");
        box.type = "button";
        // A colour for each name, the same at every zoom.
        let hash = 0;
        for (const c of node.name) hash = (hash * 31 + c.codePointAt(0)) % 997;
        box.className = "frame f" + hash % 6 + (faded ? " faded" : "") + (matches(node) ? " match" : "");
        box.style.cssText = `left:${left * 100}%;width:${width * 100}%;top:${node.depth * ROW}px`;
        box.textContent = brief(node.name);
        box.dataset.tip = tip(node);
        box.setAttribute("aria-label", box.dataset.tip);
        box.addEventListener("click", () => { zoomed = node === zoomed && node.parent ? node.parent : node; draw(); });
        drawn.push(box);
        deepest = Math.max(deepest, node.depth);
      };
      const below = (node, left) => {
        put(node, left, node.values[measure] / whole, false);
        const children = [...node.children.values()].sort((a, b) => b.values[measure] - a.values[measure]);
        for (const child of children) {
          // Narrower than about a pixel: nobody sees it, and all that follow are narrower still.
          if (child.values[measure] / whole < 0.0012) break;
          below(child, left);
          left += child.values[measure] / whole;
        }
      };
      for (let node = zoomed.parent; node; node = node.parent) put(node, 0, 1, true);
      below(zoomed, 0);
      graph.replaceChildren(...drawn);
      graph.style.height = (deepest + 1) * ROW + "px";
      reset.disabled = zoomed === root;
      for (const button of buttons) button.setAttribute("aria-pressed", +button.dataset.measure === measure);
      tell();
    };
    const tell = () => {
      if (!search.value) { found.textContent = ""; return; }
      let sum = 0;
      // Of a matching frame the callees are in it already.
      const walk = node => { if (matches(node)) sum += node.values[measure]; else node.children.forEach(walk); };
      walk(root);
      found.textContent = percent(sum / (root.values[measure] || 1)).replace("<0.1%", sum ? "<0.1%" : "0%") + " in frames that match";
    };
    for (const button of buttons) button.addEventListener("click", () => { measure = +button.dataset.measure; draw(); });
    search.addEventListener("input", draw);
    reset.addEventListener("click", () => { zoomed = root; draw(); });
    flame.querySelector(".tools").hidden = false;
    draw();
  }

  const sites = document.getElementById("sites");
  if (sites) sites.addEventListener("toggle", event => {
    const details = event.target, number = details.dataset.site;
    if (number === undefined || details.children.length > 1) return;
    const site = data.sites[number], list = document.createElement("ol");
    for (const frame of [...site.stack].reverse()) {
      const item = document.createElement("li"), [name, detail] = data.frames[frame];
      const code = document.createElement("code");
      code.textContent = detail;
      item.append(name, document.createElement("br"), code);
      list.append(item);
    }
    details.append(list);
    if (!site.touches.length) return;
    const all = site.touches.reduce((sum, [, n]) => sum + n, 0), touched = document.createElement("p"), functions = document.createElement("ul");
    touched.textContent = "Touched by";
    for (const [name, n, latency] of site.touches.slice(0, 8)) {
      const item = document.createElement("li");
      item.textContent = name + ": " + percent(n / all) + (latency === null ? "" : ", loads take " + latency.toFixed(0) + " ns");
      functions.append(item);
    }
    details.append(touched, functions);
  }, true);
}
