// One cell in full, what its query looked at, and who looked at its key.

/** @import { App } from "./app.js" */
/** @import { Cells } from "./types.js" */
/** @import { Units } from "./words.js" */

import { byId, counted, element, shortened } from "./dom.js";
import { weightText } from "./look.js";
import { MASKED, largest } from "./weights.js";

export class Card {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.count = 8;
  }

  draw() {
    const { app } = this,
      { look } = app,
      { row, column } = app.profile;
    this._cell();
    this._titles();
    byId("card").setAttribute("aria-busy", String(!row || !column));
    if (row) this._list("row-list", row, look.columns, (c) => app.go(app.query, c, "key"), app.key);
    if (column) this._list("column-list", column, look.rows, (r) => app.go(r, app.key, "query"), app.query);
  }

  _titles() {
    const { app } = this,
      names = (/** @type {number[]} */ chosen, /** @type {Units} */ units) =>
        chosen.length > 3
          ? `${chosen.length} ${units === app.look.rows ? "queries" : "keys"}`
          : chosen.map((i) => `“${shortened(units.name(i))}”`).join(", ");
    const { selected, marked, look } = app;
    byId("row-title").textContent =
      `What ${names(selected.size ? [...selected] : [app.query], look.rows)} looked at` +
      (selected.size > 1 ? ", on average" : "");
    byId("column-title").textContent =
      `Who looked at ${names(marked.size ? [...marked] : [app.key], look.columns)}` +
      (marked.size > 1 ? ", together" : "");
  }

  _cell() {
    const { app } = this,
      { part, look, query, key } = app,
      w = look.cells(query, query + 1, key, key + 1)[0],
      one = look.heads.length === 1 && !look.rows.starts && !look.columns.starts,
      sums = look.sums(),
      out = look.leftOut(key);
    const facts = [[look.left ? "weight, renormalised" : "weight", weightText(look, w, key, 7)]];
    if (one && look.left) {
      const [whole] = part.tile(app.row, app.head, query, query + 1, key, key + 1);
      if (whole !== MASKED) facts.push(["weight before", whole.toPrecision(7)]);
    }
    if (one && (w !== MASKED || out) && part.visible(app.row, app.head, query, key)) {
      facts.push(["score", part.scoreAt(app.row, app.head, query, key).toPrecision(7)]);
      facts.push(["log-sum-exp of the query", part.lseAt(app.row, app.head, query).toPrecision(7)]);
    }
    if (sums) {
      const percent = (/** @type {number} */ x) => `${(100 * x).toFixed(1)} %`;
      facts.push(["entropy of the query, nats", sums.entropy[query].toFixed(4)]);
      facts.push([`of at most ${sums.bound[query].toFixed(4)}`, percent(sums.entropyShare[query])]);
      facts.push(["received by the key", sums.received[key].toFixed(4)]);
      facts.push([
        `of ${counted(Math.round(sums.possible[key]))} queries that could look`,
        percent(sums.receivedShare[key]),
      ]);
    }
    const place = (/** @type {Units} */ units, /** @type {number} */ i) =>
      units.tokens || units.starts
        ? element("small", {}, ` ${units.start(i)}${units.end(i) - units.start(i) > 1 ? `–${units.end(i) - 1}` : ""}`)
        : null;
    byId("cell").replaceChildren(
      element(
        "p",
        { class: "pair" },
        element("bdi", {}, shortened(look.rows.name(query))),
        place(look.rows, query),
        element("span", { class: "arrow" }, " → "),
        element("bdi", {}, shortened(look.columns.name(key))),
        place(look.columns, key),
        element("span", { class: "of-pair" }, weightText(look, w, key, 3)),
      ),
      element("dl", {}, ...facts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])),
    );
  }

  /** @param {"row-list" | "column-list"} id @param {Cells} weights @param {Units} units @param {(i: number) => void} go @param {number} current */
  _list(id, weights, units, go, current) {
    const best = largest(weights, this.count);
    const items = best.map(([i, w]) => {
      // A bar's full length is 1, as everywhere.
      const bar = element("span", { class: "bar" });
      bar.style.width = `${Math.min(100, Math.max(0, w * 100))}%`;
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
    byId(id).replaceChildren(...(items.length ? items : [element("li", { class: "none" }, "nobody: all of it is masked")]));
  }
}
