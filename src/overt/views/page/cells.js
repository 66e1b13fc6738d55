// Exact cells: exp(score − lse) in double precision, from the stored q, k and log-sum-exp and from nothing else.

/** @import { Cells, Left, Numbers, Opened, PartMeta, Scan } from "./types.js" */

import { HALVES, loaded, numberAt, unpacked } from "./arrays.js";
import { MASKED, bins, blank, blended, pooled, spread } from "./weights.js";

const ARRAYS = /** @type {const} */ (["q", "k", "lse", "maximum", "first", "last", "bits", "additive", "overview", "received", "entropy"]);
// Numbers of k that are held as doubles at once.
const BLOCK = 1 << 18;

export class Attention {
  /** @param {PartMeta} meta @param {string[][]} lists of names @param {number} index among all attentions */
  constructor(meta, lists, index) {
    this.meta = meta;
    this.index = index;
    this.B = meta.B;
    this.H = meta.H;
    this.G = meta.G;
    this.T = meta.T;
    this.S = meta.S;
    this.A = meta.A;
    /** Its numbers, once it is open. @type {Opened} */
    this.numbers = /** @type {any} */ ({});
    this.keys = meta.keys === null ? null : lists[meta.keys];
    this.queries = meta.queries === null ? null : lists[meta.queries];
    /** v of the additive score. @type {Float64Array | null} */
    this.v = null;
    /** @type {Promise<Attention> | null} */
    this.opened = null;
    /** What passes found. @type {Map<string, Scan>} */
    this.scans = new Map();
  }

  open() {
    this.opened ??= this._open();
    return this.opened;
  }

  /**
   * Make ready for `scanning` a head.
   * @param {number} b
   * @param {number} h
   * @param {Left} _left
   * @param {() => void} _tell called where it takes long
   */
  async prepare(b, h, _left, _tell) {
    await this.open();
    const at = b * this.H + h,
      { received, entropy } = this.numbers;
    await received?.tiles?.fetch(at * this.S, this.S);
    await entropy?.tiles?.fetch(at * this.T, this.T);
  }

  /** Whether its numbers lie beside the page, and come when they are looked at. */
  get beside() {
    return Boolean(this.numbers.q?.tiles);
  }

  /** @returns {Promise<Attention>} */
  async _open() {
    const { meta, numbers } = this;
    for (const name of ARRAYS) {
      const reference = meta[name];
      Object.assign(numbers, { [name]: reference ? await unpacked(reference) : null });
    }
    numbers.bias = meta.bias ? await unpacked(meta.bias.numbers) : null;
    const { additive } = numbers;
    if (additive) this.v = loaded(additive, 0, this.A, new Float64Array(this.A));
    return this;
  }

  /** The name of a key. @param {number} s */
  key(s) {
    return this.keys ? this.keys[s] : String(s);
  }
  /** @param {number} t */
  query(t) {
    return this.queries ? this.queries[t] : String(t);
  }

  /** Keys first ≤ s < last of a query. @param {number} b @param {number} h @param {number} t @returns {[number, number]} */
  span(b, h, t) {
    return [this._edge(this.numbers.first, b, h, t), this._edge(this.numbers.last, b, h, t)];
  }

  /** @param {Numbers} array @param {number} b @param {number} h @param {number} t */
  _edge(array, b, h, t) {
    const [B, H, T] = array.shape;
    return array.values[((B > 1 ? b : 0) * H + (H > 1 ? h : 0)) * T + (T > 1 ? t : 0)];
  }

  /** @param {number} b @param {number} h @param {number} t @param {number} s @returns {boolean} */
  visible(b, h, t, s) {
    const [first, last] = this.span(b, h, t);
    return s >= first && s < last && (!this.numbers.bits || this._bit(this.numbers.bits, b, h, t, s));
  }

  /** @param {Numbers} bits @param {number} b @param {number} h @param {number} t @param {number} s */
  _bit({ shape, values }, b, h, t, s) {
    const [B, H, T, bytes] = shape;
    return ((values[(((B > 1 ? b : 0) * H + (H > 1 ? h : 0)) * T + t) * bytes + (s >> 3)] >> (s & 7)) & 1) === 1;
  }

  /** What is added to a score. @param {number} b @param {number} h @param {number} t @param {number} s */
  bias(b, h, t, s) {
    if (!this.meta.bias || !this.numbers.bias) return 0;
    const { kind, offset } = this.meta.bias,
      { values, shape, half } = this.numbers.bias;
    let place;
    if (kind === "alibi") return -(half ? HALVES[values[h]] : values[h]) * Math.abs(s - t - (offset ? offset[b] : 0));
    if (kind === "distance") place = ((shape[0] > 1 ? b : 0) * shape[1] + h) * shape[2] + (s - t + this.T - 1);
    else {
      const [B, H, T, S] = shape;
      place = (((B > 1 ? b : 0) * H + (H > 1 ? h : 0)) * T + (T > 1 ? t : 0)) * S + (S > 1 ? s : 0);
    }
    return half ? HALVES[values[place]] : values[place];
  }

  /**
   * The score that the softmax takes, after softcap and bias, of a query and a key given as doubles.
   * @param {number} b @param {number} h @param {number} t @param {number} s
   * @param {Float64Array} q @param {Float64Array} k several keys @param {number} at where the key is among them
   */
  score(b, h, t, s, q, k, at) {
    const A = this.A;
    let score = 0;
    if (this.v) for (let d = 0; d < A; d++) score += this.v[d] * Math.tanh(q[d] + k[at + d]);
    else {
      let one = 0,
        two = 0,
        d = 0;
      for (; d + 1 < A; d += 2) {
        one += q[d] * k[at + d];
        two += q[d + 1] * k[at + d + 1];
      }
      if (d < A) one += q[d] * k[at + d];
      score = (one + two) * this.meta.scale;
    }
    const cap = this.meta.softcap;
    if (cap !== null) score = cap * Math.tanh(score / cap);
    return this.numbers.bias ? score + this.bias(b, h, t, s) : score;
  }

  /** @param {number} b @param {number} h @param {number} t @param {number} s @returns {number} */
  scoreAt(b, h, t, s) {
    const A = this.A,
      q = new Float64Array(A),
      k = new Float64Array(A);
    loaded(this.numbers.q, ((b * this.H + h) * this.T + t) * A, A, q);
    loaded(this.numbers.k, ((b * this.G + Math.floor(h / (this.H / this.G))) * this.S + s) * A, A, k);
    return this.score(b, h, t, s, q, k, 0);
  }

  /** @param {number} b @param {number} h @param {number} t @returns {number} */
  lseAt(b, h, t) {
    return this._of("maximum", b, h, t) + this._of("lse", b, h, t);
  }

  /**
   * A number of a row; rows whose lse is too large to be near their scores have their maximum apart.
   * @param {"maximum" | "lse"} name @param {number} b @param {number} h @param {number} t
   */
  _of(name, b, h, t) {
    const array = this.numbers[name];
    return array ? numberAt(array, (b * this.H + h) * this.T + t) : 0;
  }

  /**
   * Weights of queries t0 ≤ t < t1 and keys s0 ≤ s < s1, MASKED where the query may not look.
   * @param {number} b @param {number} h
   * @param {number} t0 @param {number} t1 @param {number} s0 @param {number} s1
   * @returns {Cells}
   */
  tile(b, h, t0, t1, s0, s1) {
    const { A } = this,
      { bits } = this.numbers,
      n = s1 - s0,
      out = new Float64Array((t1 - t0) * n).fill(MASKED);
    const keys = (b * this.G + Math.floor(h / (this.H / this.G))) * this.S;
    const block = Math.min(n, Math.max(1, Math.floor(BLOCK / Math.max(A, 1))));
    const q = new Float64Array(A),
      k = new Float64Array(block * A);
    for (let start = s0; start < s1; start += block) {
      const end = Math.min(s1, start + block);
      // Keys that no query sees need not be here.
      let low = end,
        high = start;
      for (let t = t0; t < t1; t++) {
        const [first, last] = this.span(b, h, t);
        if (first >= last) continue;
        low = Math.min(low, Math.max(start, first));
        high = Math.max(high, Math.min(end, last));
      }
      if (low >= high) continue;
      loaded(this.numbers.k, (keys + low) * A, (high - low) * A, k);
      for (let t = t0; t < t1; t++) {
        const [first, last] = this.span(b, h, t),
          most = this._of("maximum", b, h, t),
          rest = this._of("lse", b, h, t);
        const from = Math.max(start, first),
          to = Math.min(end, last);
        if (from >= to) continue;
        loaded(this.numbers.q, ((b * this.H + h) * this.T + t) * A, A, q);
        for (let s = from; s < to; s++) {
          if (bits && !this._bit(bits, b, h, t, s)) continue;
          const score = this.score(b, h, t, s, q, k, (s - low) * A);
          out[(t - t0) * n + s - s0] = rest === -Infinity ? 0 : Math.exp(score - most - rest);
        }
      }
    }
    return out;
  }

  /**
   * The same over several heads: the mean or the largest of each cell.
   * @param {number} b @param {number[]} heads @param {string} how
   * @param {number} t0 @param {number} t1 @param {number} s0 @param {number} s1
   * @returns {Cells}
   */
  blend(b, heads, how, t0, t1, s0, s1) {
    return blended(
      heads.map((h) => this.tile(b, h, t0, t1, s0, s1)),
      how,
    );
  }

  /**
   * One pass over a head: overview of the largest weights, received, entropy, how many could see and be seen, and what
   * the head is like; without keys that are left out, if any.  A generator, so that a page stays alive.
   * @param {number} b @param {number} h @param {Left} left @returns {Generator<null, Scan>}
   */
  *scanning(b, h, left) {
    const { overview, received, entropy, bits } = this.numbers,
      result = blank(this, overview?.shape.at(2), overview?.shape.at(3)),
      { rows, columns } = result;
    if (bits) yield* this._countBits(b, h, bits, result);
    else this._countSpans(b, h, result);
    if (left) for (const s of left.keys) result.seers[s] = 0;
    if (overview && received && entropy) {
      const at = b * this.H + h;
      loaded(overview, at * rows * columns, rows * columns, result.largest);
      this._hide(b, h, rows, columns, result.largest);
      loaded(received, at * this.S, this.S, result.received);
      loaded(entropy, at * this.T, this.T, result.entropy);
      result.rough = left !== null;
      if (left) for (const s of left.keys) result.received[s] = 0;
    } else yield* this._pass(b, h, left, result);
    result.like = yield* this._like(b, h, left, result);
    return result;
  }

  /** @param {number} b @param {number} h @param {Left} left @param {Scan} result @returns {Generator<null, void>} */
  *_pass(b, h, left, result) {
    const { rows, columns } = result,
      step = Math.max(1, Math.floor(2e6 / (this.S * (this.A + 8))));
    for (let t0 = 0; t0 < this.T; t0 += step) {
      const t1 = Math.min(this.T, t0 + step),
        w = left ? left.tile(this, b, h, t0, t1, 0, this.S) : this.tile(b, h, t0, t1, 0, this.S);
      for (let t = t0; t < t1; t++) {
        let entropy = 0,
          seen = 0;
        for (let s = 0, i = (t - t0) * this.S; s < this.S; s++, i++) {
          const weight = w[i];
          if (weight === MASKED) continue;
          seen++;
          result.received[s] += weight;
          if (weight > 0) entropy -= weight * Math.log(weight);
        }
        result.entropy[t] = Math.abs(entropy) < 1e-15 ? 0 : entropy;
        // What is left out is no choice.
        result.seen[t] = seen;
      }
      pooled(w, t0, t1, 0, this.S, this.T, this.S, rows, columns, result.largest);
      yield null;
    }
  }

  /** @param {number} b @param {number} h @param {Scan} result */
  _countSpans(b, h, { seers, seen }) {
    for (let t = 0; t < this.T; t++) {
      const [first, last] = this.span(b, h, t);
      if (first >= last) continue;
      seen[t] = last - first;
      seers[first]++;
      if (last < this.S) seers[last]--;
    }
    for (let s = 1; s < this.S; s++) seers[s] += seers[s - 1];
  }

  /** @param {number} b @param {number} h @param {Numbers} bits @param {Scan} result @returns {Generator<null, void>} */
  *_countBits(b, h, bits, { seers, seen }) {
    for (let t = 0; t < this.T; t++) {
      const [first, last] = this.span(b, h, t);
      for (let s = first; s < last; s++)
        if (this._bit(bits, b, h, t, s)) {
          seen[t]++;
          seers[s]++;
        }
      if (t % 64 === 63) yield null;
    }
  }

  /**
   * What tells heads apart, each 0 to 1: their entropy over its bound, and the mean weight on the first token, on the
   * token before, and on what followed the same token earlier, over the queries that could.
   * @param {number} b @param {number} h @param {Left} left @param {Scan} result
   * @returns {Generator<null, import("./types.js").Like>}
   */
  *_like(b, h, left, result) {
    const { received, seers } = result,
      like = { entropy: spread(result), first: seers[0] ? received[0] / seers[0] : null };
    if (this.beside) return like;
    const found = [];
    for (const [name, key] of Object.entries(this.targets())) found.push([name, yield* this._mean(b, h, left, key)]);
    return { ...like, ...Object.fromEntries(found) };
  }

  /** Which key each query is asked about, by what its head would be like: −1 for none. @returns {Record<string, (t: number) => number>} */
  targets() {
    if (this.meta.name === "cross") return {};
    const ahead = this.S - this.T,
      previous = (/** @type {number} */ t) => t + ahead - 1;
    if (!this.keys) return { previous };
    const after = new Int32Array(this.S).fill(-1),
      before = new Map();
    this.keys.forEach((key, s) => {
      if (before.has(key)) after[s] = before.get(key) + 1;
      before.set(key, s);
    });
    return { previous, induction: (/** @type {number} */ t) => after[t + ahead] ?? -1 };
  }

  /**
   * The mean weight on one key for each query, over those that may see theirs.
   * @param {number} b @param {number} h @param {Left} left @param {(t: number) => number} key
   * @returns {Generator<null, number | null>}
   */
  *_mean(b, h, left, key) {
    let sum = 0,
      many = 0;
    for (let t = 0; t < this.T; t++) {
      const s = key(t);
      if (t % 512 === 511) yield null;
      if (s < 0 || s >= this.S) continue;
      const [w] = left ? left.tile(this, b, h, t, t + 1, s, s + 1) : this.tile(b, h, t, t + 1, s, s + 1);
      if (w === MASKED) continue;
      sum += w;
      many++;
    }
    return many ? sum / many : null;
  }

  /**
   * Bins of the overview that lie outside all spans are masked.
   * @param {number} b @param {number} h @param {number} rows @param {number} columns @param {Float32Array} largest
   */
  _hide(b, h, rows, columns, largest) {
    const seen = new Uint8Array(rows * columns);
    for (let t = 0; t < this.T; t++) {
      const [first, last] = this.span(b, h, t);
      if (first >= last) continue;
      const [top, bottom] = bins(t, this.T, rows),
        from = bins(first, this.S, columns)[0],
        to = bins(last - 1, this.S, columns)[1];
      for (let r = top; r <= bottom; r++) seen.fill(1, r * columns + from, r * columns + to + 1);
    }
    for (let i = 0; i < seen.length; i++) if (!seen[i]) largest[i] = MASKED;
  }

  /** What a pass found; undefined before it is done. @param {number} b @param {number} h @param {Left} left */
  scan(b, h, left = null) {
    return this.scans.get(this.scanned(b, h, left));
  }

  /** @param {number} b @param {number} h @param {Left} left */
  scanned(b, h, left) {
    return `${b} ${h} ${left?.id}`;
  }
}
