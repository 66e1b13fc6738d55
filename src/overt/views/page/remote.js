// Cells that Python computes: the page asks the window around it, and throws the promise of what is not here yet.

/** @import { App } from "./app.js" */
/** @import { Look } from "./look.js" */
/** @import { Box, Cells, Dtype, Left, PartMeta, Scan, TypedArray } from "./types.js" */

import { KINDS } from "./arrays.js";
import { Attention } from "./cells.js";
import { MASKED, blank, spread } from "./weights.js";

// Answers that are kept, and questions that wait.
const KEPT = 64,
  WAITING = 12;
// Queries that are asked about one key each: at once, and of a head.
const PAIRS = 2 ** 11,
  MOST_PAIRS = 2 ** 14;

/** @typedef {Record<string, unknown>} Question */
/** A question that waits. @typedef {{question: Question, resolve: (arrays: TypedArray[] | null) => void, reject: (error: Error) => void, id: string}} Asked */

// Questions to Python, one at a time, the newest first: what somebody looks at now is wanted before what he left.
export class Python {
  constructor() {
    this.name = Math.random().toString(36).slice(2);
    this.count = 0;
    /** @type {Asked[]} */
    this.waiting = [];
    /** @type {Asked | null} */
    this.asked = null;
    addEventListener("message", (event) => {
      if (event.source === parent) this._hear(event.data);
    });
  }

  /**
   * The arrays of the answer; null where so many newer questions came that this one was dropped.
   * @param {Question} question
   * @returns {Promise<TypedArray[] | null>}
   */
  ask(question) {
    return new Promise((resolve, reject) => {
      this.waiting.push({ question, resolve, reject, id: `${this.name} ${this.count++}` });
      if (this.waiting.length > WAITING) this.waiting.shift()?.resolve(null);
      this._next();
    });
  }

  _next() {
    const next = this.asked ? null : this.waiting.pop();
    if (!next) return;
    this.asked = next;
    parent.postMessage({ id: next.id, ...next.question }, "*");
  }

  /** @param {{answer?: {id: string, error?: string, dtypes: Dtype[]}, buffers: DataView[]}} message */
  _hear({ answer, buffers }) {
    if (!this.asked || !answer || answer.id !== this.asked.id) return;
    const { resolve, reject } = this.asked;
    this.asked = null;
    if (answer.error) reject(new Error(answer.error));
    else
      resolve(
        answer.dtypes.map((dtype, i) => {
          const { buffer, byteOffset, byteLength } = buffers[i];
          return new KINDS[dtype](/** @type {ArrayBuffer} */ (buffer).slice(byteOffset, byteOffset + byteLength));
        }),
      );
    this._next();
  }
}

/** @typedef {{alike: string, t0: number, t1: number, s0: number, s1: number}} Region */
/** Cells that Python gave. @typedef {Region & {values: Cells}} Tile */

/** Whether a region has all of another one. @param {Region} outer @param {Region} inner */
const covers = (outer, inner) =>
  outer.alike === inner.alike && outer.t0 <= inner.t0 && inner.t1 <= outer.t1 && outer.s0 <= inner.s0 && inner.s1 <= outer.s1;

export class Remote extends Attention {
  /** @param {PartMeta} meta @param {string[][]} lists @param {number} index @param {Python} python */
  constructor(meta, lists, index, python) {
    super(meta, lists, index);
    this.python = python;
    /** Arrays by their questions, or the promises of them. @type {Map<string, TypedArray[] | Promise<void>>} */
    this.answers = new Map();
    /** @type {Tile[]} */
    this.tiles = [];
    /** Regions on their way. @type {(Region & {coming: unknown})[]} */
    this.coming = [];
    /** What `prepare` found last. @type {Scan | null} */
    this.passed = null;
    /** The share of a pass that is done. @type {number | null} */
    this.progress = null;
  }

  async _open() {
    return this;
  }

  /** What Python answered, or a promise thrown. @param {Question} question */
  _get(question) {
    const key = JSON.stringify(question),
      known = this.answers.get(key);
    if (known instanceof Promise) throw known;
    if (known) return known;
    const promise = this.python.ask({ part: this.index, ...question }).then(
      (arrays) => {
        if (arrays) this.answers.set(key, arrays);
        else this.answers.delete(key);
        const done = [...this.answers].filter(([, answer]) => !(answer instanceof Promise));
        for (const [old] of done.slice(0, Math.max(0, done.length - KEPT))) this.answers.delete(old);
      },
      (error) => {
        this.answers.delete(key);
        throw error;
      },
    );
    this.answers.set(key, promise);
    throw promise;
  }

  /** @param {number} row @param {number[]} heads @param {string} how @param {number} t0 @param {number} t1 @param {number} s0 @param {number} s1 @returns {Cells} */
  blend(row, heads, how, t0, t1, s0, s1) {
    const alike = `${row} ${heads} ${heads.length > 1 ? how : ""}`,
      n = s1 - s0,
      wanted = { alike, t0, t1, s0, s1 };
    let tile = this.tiles.find((x) => covers(x, wanted));
    if (!tile) {
      tile = { ...wanted, values: this._cells(wanted, { row, heads, how, t: [t0, t1], s: [s0, s1] }) };
      this.tiles = [tile, ...this.tiles.slice(0, KEPT - 1)];
    }
    if (tile.t0 === t0 && tile.t1 === t1 && tile.s0 === s0 && tile.s1 === s1) return tile.values;
    const Kind = /** @type {new (length: number) => Cells} */ (tile.values.constructor),
      out = new Kind((t1 - t0) * n),
      across = tile.s1 - tile.s0;
    for (let t = t0; t < t1; t++) {
      const at = (t - tile.t0) * across + s0 - tile.s0;
      out.set(tile.values.subarray(at, at + n), (t - t0) * n);
    }
    return out;
  }

  /** A region's cells, or the promise of them: of a wider region where that one is on its way. @param {Region} wanted @param {Question} place @returns {Cells} */
  _cells(wanted, place) {
    const wider = this.coming.find((x) => covers(x, wanted));
    if (wider) throw wider.coming;
    try {
      return /** @type {Cells} */ (this._get({ what: "cells", ...place })[0]);
    } catch (coming) {
      if (coming instanceof Promise) {
        this.coming.push({ ...wanted, coming });
        const here = () => void (this.coming = this.coming.filter((x) => x.coming !== coming));
        coming.then(here, here);
      }
      throw coming;
    }
  }

  /** @param {number} row @param {number} head @param {number} t0 @param {number} t1 @param {number} s0 @param {number} s1 */
  tile(row, head, t0, t1, s0, s1) {
    return this.blend(row, [head], "one", t0, t1, s0, s1);
  }

  /**
   * Largest weights of a window; null, where somebody can do without, until they are here.
   * @param {App} app @param {Look} look @param {Box} box @param {number} rows @param {number} columns of dots
   * @param {boolean} patient
   */
  picture(app, look, { r0, r1, c0, c1 }, rows, columns, patient) {
    const question = { what: "picture", row: look.row, heads: look.heads, t: [r0, r1], s: [c0, c1], rows, columns };
    try {
      return /** @type {Float32Array} */ (this._get(question)[0]);
    } catch (cells) {
      if (!patient || !(cells instanceof Promise)) throw cells;
      app.attempt(
        () => {
          throw cells;
        },
        () => app.redraw(),
      );
      return null;
    }
  }

  /** @param {number} row @param {number} head @param {number} t @param {number} s */
  scoreAt(row, head, t, s) {
    return this._get({ what: "score", row, heads: [head], t: [t, t + 1], s: [s, s + 1] })[0][0];
  }

  /** @param {number} row @param {number} head @param {number} t */
  lseAt(row, head, t) {
    return this._get({ what: "score", row, heads: [head], t: [t, t + 1], s: [0, 1] })[0][1];
  }

  /**
   * A scan in slices, so that other questions are answered in between; `tell` is called after each.
   * @param {number} row @param {number} head @param {Left} left @param {() => void} tell
   */
  async prepare(row, head, left, tell) {
    const { T, S, A } = this,
      step = Math.max(1, Math.floor(2 ** 34 / (S * (A + 8))));
    const result = blank(this),
      { rows, columns } = result;
    result.rough = left !== null;
    for (let t0 = 0; t0 < T; t0 += step) {
      const question = { what: "scan", part: this.index, row, heads: [head], s: [0, S], rows, columns };
      const answer = await this._sure({ ...question, t: [t0, Math.min(T, t0 + step)] });
      const [largest, received, entropy, seers, seen] = answer;
      for (let i = 0; i < largest.length; i++) result.largest[i] = Math.max(result.largest[i], largest[i]);
      for (let s = 0; s < S; s++) {
        result.received[s] += received[s];
        result.seers[s] += seers[s];
      }
      result.entropy.set(entropy, t0);
      result.seen.set(seen, t0);
      this.progress = t0 / T;
      tell();
    }
    this.progress = null;
    if (left) for (const s of left.keys) result.received[s] = result.seers[s] = 0;
    const found = [];
    for (const [name, key] of Object.entries(this.targets())) found.push([name, await this._asked(row, head, left, key)]);
    const first = result.seers[0] ? result.received[0] / result.seers[0] : null;
    result.like = { entropy: spread(result), first, ...Object.fromEntries(found) };
    this.passed = result;
  }

  /** What Python answers, asked again as long as newer questions crowd it out. @param {Question} question */
  async _sure(question) {
    for (;;) {
      const answer = await this.python.ask(question);
      if (answer) return answer;
    }
  }

  /**
   * The mean weight on one key for each query, over those that may see theirs.
   * @param {number} row @param {number} head @param {Left} left @param {(t: number) => number} key
   */
  async _asked(row, head, left, key) {
    let sum = 0,
      many = 0;
    // Of long texts every so many queries, which tell a head as well.
    const every = Math.ceil(this.T / MOST_PAIRS),
      step = PAIRS * every;
    for (let t0 = 0; t0 < this.T; t0 += step) {
      const t1 = Math.min(this.T, t0 + step),
        keys = Array.from({ length: t1 - t0 }, (_, i) => {
          const s = i % every ? -1 : key(t0 + i);
          return s < 0 || s >= this.S || left?.has[s] ? -1 : s;
        });
      const question = { what: "pairs", part: this.index, row, heads: [head], t: [t0, t1], s: [0, this.S], keys };
      const [weights] = await this._sure(question);
      for (const w of weights) {
        if (w === MASKED) continue;
        sum += w;
        many++;
      }
    }
    return many ? sum / many : null;
  }

  /** @returns {Generator<null, Scan>} */
  *scanning() {
    return this.passed ?? blank(this);
  }

  /** Only Python knows the mask: a cell that is masked says so itself. @param {number} row @param {number} head @param {number} t @param {number} s */
  visible(row, head, t, s) {
    return this.tile(row, head, t, t + 1, s, s + 1)[0] !== MASKED;
  }
}
