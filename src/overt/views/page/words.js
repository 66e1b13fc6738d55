// Units of an axis: every token by itself, or the tokens of a word together.

import { MASKED } from "./weights.js";

/** @import { Cells } from "./types.js" */


// No word of a vocabulary has more pieces: what goes on for longer is no word.
const PIECES = 64;

/** How a vocabulary marks words, if it does: a test whether token i begins one. @param {string[]} tokens @returns {((i: number) => boolean) | null} */
function wordMarks(tokens) {
  const some = tokens.slice(0, 20000),
    count = (/** @type {(token: string) => boolean} */ test) => some.filter(test).length,
    // A mark that begins a word stands every few tokens, or the text merely holds that letter.
    often = some.length / 16;
  if (count((x) => x.startsWith("▁")) > often) return (i) => tokens[i].startsWith("▁");
  if (count((x) => x.startsWith("Ġ")) > often) return (i) => tokens[i].startsWith("Ġ");
  if (count((x) => /^##[^#]/.test(x)) > 0) return (i) => !/^##[^#]/.test(tokens[i]);
  if (count((x) => x.endsWith("@@")) > 0) return (i) => !tokens[i - 1].endsWith("@@");
  if (count((x) => x.startsWith(" ") && x.length > 1) > some.length / 4) return (i) => tokens[i].startsWith(" ");
  return null;
}

/** @param {string} token */
export const special = (token) => /^(<[^<>]+>|\[[^[\]]+\]|⏎+)$/.test(token);

export class Units {
  /** @param {number} length @param {string[] | null} tokens @param {boolean} merge into words */
  constructor(length, tokens, merge) {
    this.tokens = tokens;
    this.length = length;
    /** Where words begin, and the end of the last. @type {Int32Array | null} */
    this.starts = null;
    this.marks = tokens ? wordMarks(tokens) : null;
    if (!merge || !this.marks || !tokens) return;
    /** @type {number[]} */
    const starts = [];
    for (let i = 0; i < length; i++) {
      const long = i - starts[starts.length - 1] === PIECES;
      if (i === 0 || long || this.marks(i) || special(tokens[i]) || special(tokens[i - 1])) starts.push(i);
    }
    this.length = starts.length;
    starts.push(length);
    this.starts = Int32Array.from(starts);
  }

  /** Tokens start ≤ i < end of a unit. @param {number} unit */
  start(unit) {
    return this.starts ? this.starts[unit] : unit;
  }
  /** @param {number} unit */
  end(unit) {
    return this.starts ? this.starts[unit + 1] : unit + 1;
  }

  /** The unit of a token. @param {number} token */
  of(token) {
    if (!this.starts) return token;
    let low = 0,
      high = this.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.starts[middle] <= token) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  /** @param {number} unit */
  name(unit) {
    if (!this.tokens) return String(unit);
    if (!this.starts) return this.tokens[unit];
    const bare = (/** @type {string} */ token) => token.replace(/^(▁|Ġ|##| )/, "").replace(/@@$/, "");
    return (
      this.tokens
        .slice(this.starts[unit], this.starts[unit + 1])
        .map(bare)
        .join("") || "␣"
    );
  }
}

/**
 * A tile of words from a tile of tokens: what a word receives is the sum over its tokens, what it gives their mean.
 * @param {Cells} w @param {Units} rows @param {Units} columns
 * @param {number} r0 @param {number} r1 @param {number} c0 @param {number} c1
 */
export function merged(w, rows, columns, r0, r1, c0, c1) {
  if (!rows.starts && !columns.starts) return w;
  const t0 = rows.start(r0),
    s0 = columns.start(c0),
    n = columns.end(c1 - 1) - s0;
  const out = new Float64Array((r1 - r0) * (c1 - c0));
  for (let r = r0; r < r1; r++)
    for (let c = c0; c < c1; c++) {
      let sum = 0,
        seen = false;
      const from = rows.start(r),
        to = rows.end(r);
      for (let t = from; t < to; t++)
        for (let s = columns.start(c); s < columns.end(c); s++) {
          const weight = w[(t - t0) * n + s - s0];
          if (weight !== MASKED) {
            sum += weight;
            seen = true;
          }
        }
      out[(r - r0) * (c1 - c0) + c - c0] = seen ? sum / (to - from) : MASKED;
    }
  return out;
}

/**
 * An overview of tokens as one of words: the largest bin that a bin of words touches.
 * @param {{rows: number, columns: number, values: Float32Array}} overview @param {Units} down @param {Units} across
 */
export function inWords({ rows, columns, values }, down, across) {
  if (!down.starts && !across.starts) return { rows, columns, values };
  const R = Math.min(rows, down.length),
    C = Math.min(columns, across.length),
    out = new Float32Array(R * C).fill(MASKED);
  const touched = (/** @type {Units} */ units, /** @type {number} */ count, /** @type {number} */ bins) =>
    Array.from({ length: count }, (_, i) => {
      const last = Math.min(units.length, Math.ceil(((i + 1) * units.length) / count)) - 1,
        length = units.end(units.length - 1);
      return [
        Math.floor((units.start(Math.floor((i * units.length) / count)) * bins) / length),
        Math.min(bins, Math.ceil((units.end(last) * bins) / length)),
      ];
    });
  const from = touched(across, C, columns);
  touched(down, R, rows).forEach(([top, bottom], i) =>
    from.forEach(([left, right], j) => {
      for (let r = top; r < bottom; r++)
        for (let c = left; c < right; c++) out[i * C + j] = Math.max(out[i * C + j], values[r * columns + c]);
    }),
  );
  return { rows: R, columns: C, values: out };
}
