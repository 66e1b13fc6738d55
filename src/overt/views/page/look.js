// What is looked at: heads of one attention, by tokens or words, with keys left out or not, and every number of it.

/** @import { Attention } from "./cells.js" */
/** @import { State } from "./store.js" */
/** @import { Cells, Coarse, Left, Scan, Shown } from "./types.js" */

import { MASKED, blended, largest } from "./weights.js";

// Cells that are looked through for a beginning.
const SMALL = 2 ** 16;
import { Units, inWords, merged, special } from "./words.js";

/** Keys that are left out of all that is shown, in runs s0 ≤ s < s1. */
export class LeftOut {
  /** @param {string} name @param {number[]} keys in ascending order @param {number} length */
  constructor(name, keys, length) {
    this.name = name;
    this.keys = keys;
    this.id = `${name} ${keys.length < 500 ? keys : Math.random()}`;
    this.has = new Uint8Array(length);
    /** @type {[number, number][]} */
    this.runs = [];
    for (const s of keys) {
      this.has[s] = 1;
      const last = this.runs.at(-1);
      if (last && last[1] === s) last[1]++;
      else this.runs.push([s, s + 1]);
    }
    /** What each query gave to them, by head. @type {Map<string, Float64Array>} */
    this.given = new Map();
  }

  /**
   * Weights of one head over the keys that are left, each query's divided by what it gave to these.
   * @param {Attention} part @param {number} b @param {number} h
   * @param {number} t0 @param {number} t1 @param {number} s0 @param {number} s1
   * @returns {Cells}
   */
  tile(part, b, h, t0, t1, s0, s1) {
    const w = part.tile(b, h, t0, t1, s0, s1),
      given = this._given(part, b, h, t0, t1),
      n = s1 - s0,
      out = new Float64Array(w.length);
    for (let t = t0, i = 0; t < t1; t++) {
      const rest = 1 - given[t];
      for (let s = s0; s < s1; s++, i++)
        out[i] = w[i] === MASKED || this.has[s] ? MASKED : rest > 1e-12 ? Math.min(1, w[i] / rest) : 0;
    }
    return n ? out : w;
  }

  /** @param {Attention} part @param {number} b @param {number} h @param {number} t0 @param {number} t1 */
  _given(part, b, h, t0, t1) {
    const key = `${b} ${h}`;
    const given = this.given.get(key) ?? new Float64Array(part.T).fill(NaN);
    this.given.set(key, given);
    let from = t0,
      to = t1;
    while (from < to && !Number.isNaN(given[from])) from++;
    while (from < to && !Number.isNaN(given[to - 1])) to--;
    if (from === to) return given;
    const sums = new Float64Array(to - from);
    for (const [s0, s1] of this.runs) {
      const w = part.tile(b, h, from, to, s0, s1);
      for (let i = 0; i < w.length; i++) if (w[i] !== MASKED) sums[Math.floor(i / (s1 - s0))] += w[i];
    }
    given.set(sums, from);
    return given;
  }
}

export class Look {
  /**
   * @param {Attention} part
   * @param {number} row of the batch
   * @param {number} head
   * @param {State["how"]} how one head, the mean or the largest of all
   * @param {boolean} words
   * @param {Left} left
   */
  constructor(part, row, head, how, words, left) {
    this.part = part;
    this.row = row;
    this.head = head;
    this.how = how;
    this.left = left;
    /** The whole, pooled, once it is known. @type {Coarse | null} */
    this.overview = null;
    /** @type {ReturnType<Look["_sums"]> | null} */
    this.summed = null;
    this.heads = how === "one" ? [head] : Array.from({ length: part.H }, (_, h) => h);
    this.rows = new Units(part.T, part.queries, words);
    this.columns = new Units(part.S, part.keys, words);
    /** @type {false} */
    this.signed = false;
    this.key = [part.index, row, head, how, words, left?.id].join();
  }

  /** Multiplications that a cell takes. */
  get cost() {
    return (this.part.A + 8) * this.heads.length * (this.part.v ? 8 : 1);
  }

  /** Weights of a box of units. @param {number} r0 @param {number} r1 @param {number} c0 @param {number} c1 @returns {Cells} */
  cells(r0, r1, c0, c1) {
    const { rows, columns } = this;
    const w = this._blend(rows.start(r0), rows.end(r1 - 1), columns.start(c0), columns.end(c1 - 1));
    return merged(w, rows, columns, r0, r1, c0, c1);
  }

  /** @param {number} t0 @param {number} t1 @param {number} s0 @param {number} s1 */
  _blend(t0, t1, s0, s1) {
    const { part, left } = this;
    if (!left) return part.blend(this.row, this.heads, this.how, t0, t1, s0, s1);
    return blended(
      this.heads.map((h) => left.tile(part, this.row, h, t0, t1, s0, s1)),
      this.how,
    );
  }

  /** What passes over its heads found, null before all are done. */
  scans() {
    const scans = this.heads.flatMap((h) => this.part.scan(this.row, h, this.left) ?? []);
    return scans.length < this.heads.length ? null : scans;
  }

  /** Largest weights of the whole matrix, as far as they are known. */
  coarse() {
    const scans = this.scans();
    if (!scans) return null;
    this.overview ??= this._coarse(scans);
    return this.overview;
  }

  /** @param {Scan[]} scans @returns {Coarse} */
  _coarse(scans) {
    const values = Float32Array.from(scans[0].largest);
    if (scans.length > 1)
      for (let i = 0; i < values.length; i++) {
        const bins = scans.map(({ largest }) => largest[i]).filter((w) => w !== MASKED);
        const sum = bins.reduce((a, b) => a + b, 0) / scans.length;
        values[i] = bins.length === 0 ? MASKED : this.how === "max" ? Math.max(...bins) : sum;
      }
    const { rows, columns } = scans[0];
    return { ...inWords({ rows, columns, values }, this.rows, this.columns), rough: scans.some((scan) => scan.rough) };
  }

  /**
   * Of each unit of keys: attention received, and its share of what the queries that could see it could give; of each
   * unit of queries: entropy, and its share of the largest possible.  The mean of the heads.
   */
  sums() {
    const scans = this.scans();
    if (!scans) return null;
    this.summed ??= this._sums(scans);
    return this.summed;
  }

  /** @param {Scan[]} scans */
  _sums(scans) {
    /** @param {Units} units @param {(scan: Scan, i: number) => number} of @param {boolean} mean rather than sum */
    const over = (units, of, mean) => {
      const out = new Float64Array(units.length);
      for (let i = 0; i < units.length; i++) {
        for (let j = units.start(i); j < units.end(i); j++)
          for (const scan of scans) out[i] += of(scan, j) / scans.length;
        if (mean) out[i] /= units.end(i) - units.start(i);
      }
      return out;
    };
    const received = over(this.columns, (scan, s) => scan.received[s], false),
      possible = over(this.columns, (scan, s) => scan.seers[s], true),
      entropy = over(this.rows, (scan, t) => scan.entropy[t], true),
      bound = over(this.rows, (scan, t) => Math.log(Math.max(1, scan.seen[t])), true);
    /** @param {Float64Array} x @param {Float64Array} of */
    const share = (x, of) => x.map((y, i) => (of[i] > 0 ? Math.min(1, y / of[i]) : 0));
    const receivedShare = share(received, possible),
      entropyShare = share(entropy, bound);
    return {
      received,
      possible,
      entropy,
      bound,
      receivedShare,
      entropyShare,
      mostReceived: receivedShare.reduce((a, b) => Math.max(a, b), 0),
    };
  }

  /** Whether a key is left out, rather than hidden by a mask. @param {number} c */
  leftOut(c) {
    return this.left !== null && this.left.has[this.columns.start(c)] === 1;
  }

  /** The cell to begin with: of a translation the surest pair of words, else what the last query looks at most. */
  get beginning() {
    const { rows, columns, part } = this,
      last = rows.length - 1,
      wordy = (/** @type {Units} */ units) =>
        Array.from({ length: units.length }, (_, i) => i).filter((i) => /\p{L}/u.test(units.name(i)) && !special(units.name(i)));
    if (part.meta.name === "cross" && rows.length * columns.length <= SMALL) {
      const w = this.cells(0, rows.length, 0, columns.length),
        keys = wordy(columns),
        pairs = wordy(rows).flatMap((r) => keys.map((c) => ({ r, c, weight: w[r * columns.length + c] })));
      if (pairs.length) return pairs.reduce((best, pair) => (pair.weight > best.weight ? pair : best));
    }
    const [best] = largest(this.cells(last, last + 1, 0, columns.length), 1);
    return { r: last, c: best ? best[0] : 0 };
  }
}

/** What the second has more than the first, of two looks of one size: weights of −1 to 1 as shades of 0 to 1. */
export class Difference {
  /** @param {Look} first @param {Look} second */
  constructor(first, second) {
    this.first = first;
    this.second = second;
    this.part = first.part;
    this.rows = first.rows;
    this.columns = first.columns;
    this.left = first.left;
    this.heads = [...first.heads, ...second.heads];
    /** @type {true} */
    this.signed = true;
    this.key = `${first.key} − ${second.key}`;
  }

  get cost() {
    return this.first.cost + this.second.cost;
  }

  /** @param {number} r0 @param {number} r1 @param {number} c0 @param {number} c1 @returns {Cells} */
  cells(r0, r1, c0, c1) {
    const a = this.first.cells(r0, r1, c0, c1),
      b = this.second.cells(r0, r1, c0, c1),
      out = new Float64Array(a.length);
    for (let i = 0; i < out.length; i++)
      out[i] =
        a[i] === MASKED && b[i] === MASKED ? MASKED : (1 + Math.max(0, b[i]) - Math.max(0, a[i])) / 2;
    return out;
  }

  /** @returns {Coarse | null} */
  coarse() {
    return null;
  }

  /** @returns {ReturnType<Look["sums"]>} */
  sums() {
    return null;
  }

  /** @param {number} c */
  leftOut(c) {
    return this.first.leftOut(c) && this.second.leftOut(c);
  }
}

/** A weight in words. @param {Shown} look @param {number} w @param {number} c its key @param {number} digits */
export const weightText = (look, w, c, digits) => (w === MASKED ? (look.leftOut(c) ? "left out" : "masked") : w.toPrecision(digits));
