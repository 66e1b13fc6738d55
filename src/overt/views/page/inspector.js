// Beside the matrix: one cell in full, what its query looked at, who looked at its key, and both as running text.

import { MASKED, largest } from "./cells.js";

// Names around the cursor that the running text shows.
const AROUND = 150;

export function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") node.className = value;
    else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

export class Inspector {
  constructor(app) {
    this.app = app;
    this.count = 8;
  }

  // Weights of a query over all units of keys; of several selected queries their mean.
  rowWeights() {
    const { app } = this,
      chosen = app.selected.size ? [...app.selected] : [app.query];
    const sum = new Float64Array(app.columns.length).fill(MASKED);
    for (const r of chosen) {
      const w = app.cells(r, r + 1, 0, app.columns.length);
      for (let i = 0; i < sum.length; i++)
        if (w[i] !== MASKED) sum[i] = (sum[i] === MASKED ? 0 : sum[i]) + w[i] / chosen.length;
    }
    return sum;
  }

  columnWeights() {
    const { app } = this;
    return app.cells(0, app.rows.length, app.key, app.key + 1);
  }

  draw() {
    const { app } = this,
      row = this.rowWeights(),
      column = this.columnWeights();
    this.row = row;
    this.column = column;
    this._cell();
    const chosen = [...app.selected],
      name = (r) => `“${shortened(app.rows.name(r))}”`;
    const who =
      chosen.length > 3 ? `${chosen.length} queries` : (chosen.length ? chosen : [app.query]).map(name).join(", ");
    document.getElementById("row-title").textContent =
      `What ${who} looked at${chosen.length > 1 ? ", on average" : ""}`;
    document.getElementById("column-title").textContent = `Who looked at “${shortened(app.columns.name(app.key))}”`;
    this._list("row-list", row, app.columns, (c) => app.go(app.query, c), app.key);
    this._list("column-list", column, app.rows, (r) => app.go(r, app.key), app.query);
    this._text(
      "keys",
      app.columns,
      app.key,
      row,
      (c) => app.go(app.query, c),
      (c) => c === app.key,
      0,
    );
    this._text(
      "queries",
      app.rows,
      app.query,
      column,
      (r, more) => (more ? app.toggle(r) : app.go(r, app.key)),
      (r) => app.selected.has(r) || (!app.selected.size && r === app.query),
      app.part.meta.prompt,
    );
  }

  _cell() {
    const { app } = this,
      { part } = app,
      w = app.cells(app.query, app.query + 1, app.key, app.key + 1)[0];
    const one = app.heads.length === 1 && !app.rows.starts && !app.columns.starts,
      sums = app.sums();
    const facts = [["weight", w === MASKED ? "masked" : w.toPrecision(7)]];
    if (one && w !== MASKED) {
      facts.push(["score", part.scoreAt(app.row, app.head, app.query, app.key).toPrecision(7)]);
      facts.push(["log-sum-exp of the query", part.lseAt(app.row, app.head, app.query).toPrecision(7)]);
    }
    if (sums) {
      facts.push(["entropy of the query, nats", sums.entropy[app.query].toFixed(4)]);
      facts.push(["received by the key, all queries", sums.received[app.key].toFixed(4)]);
    }
    const [from, to] = [shortened(app.rows.name(app.query)), shortened(app.columns.name(app.key))];
    document
      .getElementById("cell")
      .replaceChildren(
        element(
          "p",
          { class: "pair" },
          element("bdi", {}, from),
          element("span", { class: "arrow" }, " → "),
          element("bdi", {}, to),
          element("small", {}, `  query ${app.query}, key ${app.key}`),
        ),
        element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
      );
  }

  _list(id, weights, units, go, current) {
    const best = largest(weights, this.count),
      high = best.length ? best[0][1] || 1 : 1;
    const items = best.map(([i, w]) => {
      const bar = element("span", { class: "bar" });
      bar.style.width = `${Math.max(0, (w / high) * 100)}%`;
      return element(
        "li",
        {},
        element(
          "button",
          { class: i === current ? "current" : "", onclick: () => go(i) },
          bar,
          element("bdi", {}, shortened(units.name(i))),
          element("small", {}, units.tokens ? String(i) : ""),
          element("span", { class: "number" }, w >= 0.00005 || w === 0 ? w.toFixed(4) : w.toExponential(1)),
        ),
      );
    });
    document
      .getElementById(id)
      .replaceChildren(...(items.length ? items : [element("li", { class: "none" }, "nobody: all of it is masked")]));
  }

  _text(id, units, around, weights, go, chosen, prompt) {
    const host = document.getElementById(id),
      { app } = this;
    const start = Math.max(0, Math.min(around - AROUND, units.length - 2 * AROUND)),
      end = Math.min(units.length, start + 2 * AROUND);
    let high = 0;
    for (const w of weights) high = Math.max(high, w);
    const chips = [];
    if (start) chips.push(element("small", {}, `… ${start.toLocaleString("en")} before …`));
    for (let i = start; i < end; i++) {
      const w = weights[i],
        level = w > 0 ? w / high : 0,
        at = 3 * Math.round(level * 255);
      const chip = element(
        "button",
        {
          class: `chip${chosen(i) ? " chosen" : ""}${w === MASKED ? " unseen" : ""}${prompt && i >= prompt ? " made" : ""}`,
          title: `${shortened(units.name(i))} · ${i} · ${w === MASKED ? "masked" : w.toPrecision(4)}`,
          "aria-pressed": String(chosen(i)),
          onclick: (event) => go(i, event.shiftKey || event.ctrlKey || event.metaKey),
        },
        element("bdi", {}, shortened(units.name(i), 40)),
      );
      if (w !== MASKED) {
        chip.style.background = `rgb(${app.theme.ramp[at]}, ${app.theme.ramp[at + 1]}, ${app.theme.ramp[at + 2]})`;
        chip.style.color = level > 0.5 ? app.theme.inkOnFull : app.theme.inkOnEmpty;
      }
      chips.push(chip);
    }
    if (end < units.length) chips.push(element("small", {}, `… ${(units.length - end).toLocaleString("en")} after …`));
    host.replaceChildren(...chips);
    const chip = chips[around - start + (start ? 1 : 0)],
      box = host.getBoundingClientRect(),
      own = chip.getBoundingClientRect();
    // Within its own box: the page itself stays where it is.
    if (own.top < box.top || own.bottom > box.bottom) host.scrollTop += own.top - box.top - (box.height - own.height) / 2;
  }
}

export function shortened(name, most = 60) {
  const letters = Array.from(name.slice(0, 4 * most));
  return letters.length > most || name.length > 4 * most ? `${letters.slice(0, most).join("")}…` : name;
}
