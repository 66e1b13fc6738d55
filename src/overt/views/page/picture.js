// Weights of a window of the matrix, pooled to what the screen can show: at once, in slices, or as Python answers.

/** @import { App } from "./app.js" */
/** @import { Pieces } from "./scheduler.js" */
/** @import { Box, Cells, Coarse, Shown } from "./types.js" */

import { Remote } from "./remote.js";
import { finished, patiently } from "./scheduler.js";
import { MASKED, pooled } from "./weights.js";

// Multiplications done at once while somebody drags, and at most in pieces while somebody waits.
const AT_ONCE = 2 ** 25,
  IN_PIECES = 2 ** 33;
// Cells that are asked of Python one by one, and multiplications that it does for a picture of more.
const SENT = 2 ** 18,
  ON_REQUEST = 2 ** 36;

export class Picture {
  /** @param {App} app @param {string} name of the job */
  constructor(app, name) {
    this.app = app;
    this.name = name;
    /** @type {{key: string, values: Float32Array | null}} */
    this.cached = { key: "", values: null };
    /** @type {string | null} */
    this.wanted = null;
  }

  /**
   * What there is to paint: `values` (R, C) of the box, or the `coarse` overview of the whole until these are here.
   *
   * @param {Shown} look
   * @param {Box} box
   * @param {number} R most rows that can be seen
   * @param {number} C most columns
   * @returns {{box: Box, R: number, C: number, values: Float32Array | null, coarse: Coarse | null}}
   */
  of(look, box, R, C) {
    const key = [look.key, ...Object.values(box), R, C].join();
    if (this.cached.key === key) return { box, R, C, values: this.cached.values, coarse: null };
    const { rows, columns, part } = look,
      cells = (rows.end(box.r1 - 1) - rows.start(box.r0)) * (columns.end(box.c1 - 1) - columns.start(box.c0)),
      work = cells * look.cost;
    if (part instanceof Remote) {
      const coarse = look.coarse();
      if (cells <= SENT) look.cells(box.r0, box.r1, box.c0, box.c1);
      else {
        // Python can pool the cells of a head, but no words, means, differences nor what is left out; until that is
        // here, the overview has to do.
        const able = !rows.starts && !columns.starts && !look.signed && !look.left && look.how !== "mean";
        const values = able && work <= ON_REQUEST ? part.picture(this.app, look, box, R, C, coarse !== null) : null;
        if (values) this.cached = { key, values };
        return { box, R, C, values, coarse };
      }
    } else if (work > AT_ONCE) {
      const coarse = look.coarse();
      if (work > IN_PIECES) this._drop();
      else if (this.wanted !== key) this._begin(key, look, box, R, C);
      if (coarse || work > 8 * AT_ONCE) return { box, R, C, values: null, coarse };
    }
    this._drop();
    const values = finished(weighing(look, box, R, C));
    this.cached = { key, values };
    return { box, R, C, values, coarse: null };
  }

  /** @param {string} key @param {Shown} look @param {Box} box @param {number} R @param {number} C */
  _begin(key, look, box, R, C) {
    this.wanted = key;
    this.app.scheduler.job(this.name, weighing(look, box, R, C), (values) => {
      this.cached = { key, values };
      this.wanted = null;
      this.app.redraw();
    });
  }

  _drop() {
    this.wanted = null;
    this.app.scheduler.jobs.delete(this.name);
  }
}

/** @param {Shown} look @param {Box} box @param {number} R @param {number} C @returns {Pieces<Float32Array>} */
function* weighing(look, { r0, r1, c0, c1 }, R, C) {
  const { rows, columns } = look,
    out = new Float32Array(R * C).fill(MASKED);
  const n = columns.end(c1 - 1) - columns.start(c0),
    step = Math.max(1, Math.floor(2e6 / (n * look.cost)));
  for (let r = r0, end; r < r1; r = end) {
    // Tokens are work, however many make a word.
    const until = rows.start(r) + step;
    end = until < rows.end(r1 - 1) ? Math.max(r + 1, rows.of(until)) : r1;
    const w = yield* patiently(() => look.cells(r, end, c0, c1));
    (look.signed ? pooledDifferences : pooled)(w, r, end, c0, c1, r1 - r0, c1 - c0, R, C, out, r0, c0);
    yield null;
  }
  return out;
}

/**
 * Of differences that which is farthest from none, which stands at a half.
 * @param {Cells} w @param {number} t0 @param {number} t1 @param {number} s0 @param {number} s1
 * @param {number} T @param {number} S @param {number} rows @param {number} columns
 * @param {Float32Array} into @param {number} down @param {number} across
 */
function pooledDifferences(w, t0, t1, s0, s1, T, S, rows, columns, into, down, across) {
  const upper = pooled(w, t0, t1, s0, s1, T, S, rows, columns, new Float32Array(into.length).fill(MASKED), down, across),
    turned = w.map((x) => (x === MASKED ? MASKED : 1 - x)),
    lower = pooled(turned, t0, t1, s0, s1, T, S, rows, columns, new Float32Array(into.length).fill(MASKED), down, across);
  for (let i = 0; i < into.length; i++) {
    if (upper[i] === MASKED) continue;
    const here = upper[i] > lower[i] ? upper[i] : 1 - lower[i];
    if (into[i] === MASKED || Math.abs(here - 0.5) > Math.abs(into[i] - 0.5)) into[i] = here;
  }
  return into;
}
