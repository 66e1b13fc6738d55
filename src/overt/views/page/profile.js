// What the chosen queries look at and who looks at the chosen keys: a row and a column of the matrix.

/** @import { App } from "./app.js" */
/** @import { Pieces } from "./scheduler.js" */
/** @import { Cells } from "./types.js" */
/** @import { Units } from "./words.js" */

import { Remote } from "./remote.js";
import { finished, patiently } from "./scheduler.js";
import { MASKED } from "./weights.js";

// Multiplications that fit between two frames.
const AT_ONCE = 2 ** 20;

/** Weights of one query or key over a range of the others. @typedef {(one: number, from: number, to: number) => Cells} CellsOf */

export class Profile {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {Record<"row" | "column", {key: string, values: Float64Array | null}>} */
    this.lines = { row: { key: "", values: null }, column: { key: "", values: null } };
  }

  /** Weights over all keys, of several queries their mean; null until they are worked out. */
  get row() {
    const { look, query, selected } = this.app,
      rows = selected.size ? [...selected] : [query];
    return this._line("row", rows, look.columns, (r, from, to) => look.cells(r, r + 1, from, to), 1 / rows.length);
  }

  /** Weights of all queries, on several keys together; null until they are worked out. */
  get column() {
    const { look, key, marked } = this.app;
    return this._line("column", marked.size ? [...marked] : [key], look.rows, (c, from, to) => look.cells(from, to, c, c + 1), 1);
  }

  /** @param {"row" | "column"} name @param {number[]} chosen @param {Units} units @param {CellsOf} cells @param {number} share */
  _line(name, chosen, units, cells, share) {
    const { app } = this,
      { look } = app,
      key = `${look.key} ${chosen}`,
      line = this.lines[name];
    if (line.key === key) return line.values;
    const steps = gathered(chosen, units, cells, share, Math.max(1, Math.floor(AT_ONCE / look.cost)));
    if (look.part instanceof Remote || units.end(units.length - 1) * look.cost * chosen.length <= AT_ONCE) {
      const values = finished(steps);
      this.lines[name] = { key, values };
      app.scheduler.jobs.delete(name);
      return values;
    }
    this.lines[name] = { key, values: null };
    app.scheduler.job(name, steps, (values) => {
      this.lines[name] = { key, values };
      app.refresh();
    });
    return null;
  }
}

/** @param {number[]} chosen @param {Units} units @param {CellsOf} cells @param {number} share @param {number} step @returns {Pieces<Float64Array>} */
function* gathered(chosen, units, cells, share, step) {
  const sum = new Float64Array(units.length).fill(MASKED);
  for (const one of chosen)
    for (let from = 0, to; from < units.length; from = to) {
      const until = units.start(from) + step;
      to = until < units.end(units.length - 1) ? Math.max(from + 1, units.of(until)) : units.length;
      const w = yield* patiently(() => cells(one, from, to));
      for (let i = from; i < to; i++)
        if (w[i - from] !== MASKED) sum[i] = (sum[i] === MASKED ? 0 : sum[i]) + w[i - from] * share;
      if (to < units.length) yield null;
    }
  return sum;
}
