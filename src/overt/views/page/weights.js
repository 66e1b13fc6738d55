// Weights of boxes and of whole heads: bins, the largest, several heads as one.

/** @import { Cells, Scan } from "./types.js" */

/** What a query may not look at. */
export const MASKED = -1;

/**
 * A scan of which nothing is known yet, of so many bins.
 * @param {{T: number, S: number}} part
 * @returns {Scan}
 */
export function blank({ T, S }, rows = Math.min(256, T), columns = Math.min(256, S)) {
  return {
    rows,
    columns,
    largest: new Float32Array(rows * columns).fill(MASKED),
    received: new Float64Array(S),
    entropy: new Float64Array(T),
    seers: new Float64Array(S),
    seen: new Float64Array(T),
    rough: false,
    like: {},
  };
}

/**
 * Largest cell of each bin, by the rule of adaptive pooling: bin i of n holds ⌊i·L/n⌋ ≤ index < ⌈(i+1)·L/n⌉.
 * @param {Cells} w of queries t0 ≤ t < t1 and keys s0 ≤ s < s1
 * @param {number} t0 @param {number} t1 @param {number} s0 @param {number} s1
 * @param {number} T @param {number} S of the whole
 * @param {number} rows @param {number} columns of bins
 * @param {Float32Array} into
 */
export function pooled(w, t0, t1, s0, s1, T, S, rows, columns, into, down = 0, across = 0) {
  const n = s1 - s0,
    low = new Int32Array(n),
    high = new Int32Array(n);
  for (let s = s0; s < s1; s++) [low[s - s0], high[s - s0]] = bins(s - across, S, columns);
  for (let t = t0; t < t1; t++) {
    const [top, bottom] = bins(t - down, T, rows);
    for (let s = 0, i = (t - t0) * n; s < n; s++, i++)
      for (let r = top; r <= bottom; r++)
        for (let c = low[s]; c <= high[s]; c++) if (w[i] > into[r * columns + c]) into[r * columns + c] = w[i];
  }
  return into;
}

/** First and last bin that hold an index. @param {number} index @param {number} length @param {number} count @returns {[number, number]} */
export function bins(index, length, count) {
  return [Math.floor((index * count) / length), Math.min(count, Math.ceil(((index + 1) * count) / length)) - 1];
}

/**
 * Places and values of the k largest numbers, largest first, ties to the lower place; masked ones are left out.
 * @param {Cells} values
 * @param {number} k
 */
export function largest(values, k) {
  /** @type {[number, number][]} */
  const best = [];
  for (let i = 0; i < values.length; i++) {
    if (values[i] === MASKED || (best.length === k && !(values[i] > best[k - 1][1]))) continue;
    let at = best.length;
    while (at > 0 && best[at - 1][1] < values[i]) at--;
    best.splice(at, 0, [i, values[i]]);
    if (best.length > k) best.pop();
  }
  return best;
}

/** The mean or the largest of several heads' cells, MASKED where none may look. @param {Cells[]} tiles @param {string} how */
export function blended(tiles, how) {
  const out = tiles[0];
  if (tiles.length === 1) return out;
  for (const more of tiles.slice(1))
    for (let i = 0; i < out.length; i++) {
      if (more[i] === MASKED) continue;
      if (out[i] === MASKED) out[i] = more[i];
      else out[i] = how === "max" ? Math.max(out[i], more[i]) : out[i] + more[i];
    }
  if (how === "mean") for (let i = 0; i < out.length; i++) if (out[i] !== MASKED) out[i] /= tiles.length;
  return out;
}

/** The mean entropy of queries that have a choice, over its bound. @param {{entropy: Float64Array, seen: Float64Array}} scan */
export function spread({ entropy, seen }) {
  let sum = 0,
    many = 0;
  for (let t = 0; t < seen.length; t++) {
    if (seen[t] < 2) continue;
    sum += Math.min(1, entropy[t] / Math.log(seen[t]));
    many++;
  }
  return many ? sum / many : null;
}
