// Exact cells: exp(score − lse) in double precision, from the stored q, k and log-sum-exp and from nothing else.

import { HALVES, loaded, numberAt, unpacked } from "./arrays.js";

export const MASKED = -1;
// Numbers of k that are held as doubles at once.
const BLOCK = 1 << 18;

export class Attention {
  constructor(meta, lists, index) {
    this.meta = meta;
    this.index = index;
    /** @type {number} */
    this.B = meta.B;
    /** @type {number} */
    this.H = meta.H;
    /** @type {number} */
    this.G = meta.G;
    /** @type {number} */
    this.T = meta.T;
    /** @type {number} */
    this.S = meta.S;
    /** @type {number} */
    this.A = meta.A;
    /** Its numbers, once it is open. @type {Record<string, any>} */
    this.numbers = {};
    this.keys = meta.keys === null ? null : lists[meta.keys];
    this.queries = meta.queries === null ? null : lists[meta.queries];
    /** v of the additive score. @type {Float64Array | null} */
    this.v = null;
    /** @type {Promise<Attention> | null} */
    this.opened = null;
    this.scans = new Map();
  }

  open() {
    this.opened ??= this._open();
    return this.opened;
  }

  // Make ready for `scanning` a head.
  /** @returns {Promise<any>} */
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

  async _open() {
    const meta = this.meta;
    for (const name of ["q", "k", "lse", "maximum", "first", "last", "bits", "additive", "overview", "received", "entropy"])
      this.numbers[name] = meta[name] ? await unpacked(meta[name]) : null;
    if (meta.bias) this.numbers.bias = await unpacked(meta.bias.numbers);
    const { additive } = this.numbers;
    if (additive) this.v = loaded(additive, 0, this.A, new Float64Array(this.A));
    return this;
  }

  key(s) {
    return this.keys ? this.keys[s] : String(s);
  }
  query(t) {
    return this.queries ? this.queries[t] : String(t);
  }

  // Keys first ≤ s < last of a query.
  span(b, h, t) {
    return [this._edge(this.numbers.first, b, h, t), this._edge(this.numbers.last, b, h, t)];
  }

  _edge(array, b, h, t) {
    const [B, H, T] = array.shape;
    return array.values[((B > 1 ? b : 0) * H + (H > 1 ? h : 0)) * T + (T > 1 ? t : 0)];
  }

  visible(b, h, t, s) {
    const [first, last] = this.span(b, h, t);
    return s >= first && s < last && (!this.numbers.bits || this._bit(b, h, t, s));
  }

  _bit(b, h, t, s) {
    const [B, H, T, bytes] = this.numbers.bits.shape;
    return (this.numbers.bits.values[(((B > 1 ? b : 0) * H + (H > 1 ? h : 0)) * T + t) * bytes + (s >> 3)] >> (s & 7)) & 1;
  }

  bias(b, h, t, s) {
    const { kind, offset } = this.meta.bias,
      { values, shape, half } = this.numbers.bias;
    let place;
    if (kind === "alibi") return -(half ? HALVES[values[h]] : values[h]) * Math.abs(s - t - offset[b]);
    if (kind === "distance") place = ((shape[0] > 1 ? b : 0) * shape[1] + h) * shape[2] + (s - t + this.T - 1);
    else {
      const [B, H, T, S] = shape;
      place = (((B > 1 ? b : 0) * H + (H > 1 ? h : 0)) * T + (T > 1 ? t : 0)) * S + (S > 1 ? s : 0);
    }
    return half ? HALVES[values[place]] : values[place];
  }

  // The score that the softmax takes, after softcap and bias, of a query and a key given as doubles.
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

  scoreAt(b, h, t, s) {
    const A = this.A,
      q = new Float64Array(A),
      k = new Float64Array(A);
    loaded(this.numbers.q, ((b * this.H + h) * this.T + t) * A, A, q);
    loaded(this.numbers.k, ((b * this.G + Math.floor(h / (this.H / this.G))) * this.S + s) * A, A, k);
    return this.score(b, h, t, s, q, k, 0);
  }

  lseAt(b, h, t) {
    return this._of("maximum", b, h, t) + this._of("lse", b, h, t);
  }

  // A number of a row; rows whose lse is too large to be near their scores have their maximum apart.
  _of(name, b, h, t) {
    return this.numbers[name] ? numberAt(this.numbers[name], (b * this.H + h) * this.T + t) : 0;
  }

  // Weights of queries t0 ≤ t < t1 and keys s0 ≤ s < s1, MASKED where the query may not look.
  tile(b, h, t0, t1, s0, s1) {
    const A = this.A,
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
          if (this.numbers.bits && !this._bit(b, h, t, s)) continue;
          const score = this.score(b, h, t, s, q, k, (s - low) * A);
          out[(t - t0) * n + s - s0] = rest === -Infinity ? 0 : Math.exp(score - most - rest);
        }
      }
    }
    return out;
  }

  // The same over several heads: the mean or the largest of each cell.
  blend(b, heads, how, t0, t1, s0, s1) {
    return blended(
      heads.map((h) => this.tile(b, h, t0, t1, s0, s1)),
      how,
    );
  }

  // One pass over a head: overview of the largest weights, received, entropy, how many could see and be seen, and what
  // the head is like; without keys that are left out, if any.  A generator, so that a page stays alive.
  /** @returns {any} */
  *scanning(b, h, left) {
    const [rows, columns] = this.numbers.overview?.shape.slice(2) ?? [Math.min(256, this.T), Math.min(256, this.S)];
    const result = {
      rows,
      columns,
      largest: new Float32Array(rows * columns).fill(MASKED),
      received: new Float64Array(this.S),
      entropy: new Float64Array(this.T),
      // Queries that may look at a key, keys that a query may look at.
      seers: new Float64Array(this.S),
      seen: new Float64Array(this.T),
      // Whether keys should have been left out and could not.
      rough: false,
    };
    if (this.numbers.bits) yield* this._countBits(b, h, result);
    else this._countSpans(b, h, result);
    if (left) for (const s of left.keys) result.seers[s] = 0;
    if (this.numbers.overview) {
      const at = b * this.H + h;
      loaded(this.numbers.overview, at * rows * columns, rows * columns, result.largest);
      this._hide(b, h, rows, columns, result.largest);
      loaded(this.numbers.received, at * this.S, this.S, result.received);
      loaded(this.numbers.entropy, at * this.T, this.T, result.entropy);
      result.rough = left !== null;
      if (left) for (const s of left.keys) result.received[s] = 0;
    } else yield* this._pass(b, h, left, result);
    result.like = yield* this._like(b, h, left, result);
    return result;
  }

  *_pass(b, h, left, result) {
    const { rows, columns } = result,
      step = Math.max(1, Math.floor(2e6 / (this.S * (this.A + 8))));
    for (let t0 = 0; t0 < this.T; t0 += step) {
      const t1 = Math.min(this.T, t0 + step),
        w = left ? left.tile(this, b, h, t0, t1, 0, this.S) : this.tile(b, h, t0, t1, 0, this.S);
      for (let t = t0; t < t1; t++) {
        let entropy = 0;
        for (let s = 0, i = (t - t0) * this.S; s < this.S; s++, i++) {
          const weight = w[i];
          if (weight === MASKED) continue;
          result.received[s] += weight;
          if (weight > 0) entropy -= weight * Math.log(weight);
        }
        result.entropy[t] = Math.abs(entropy) < 1e-15 ? 0 : entropy;
      }
      pooled(w, t0, t1, 0, this.S, this.T, this.S, rows, columns, result.largest);
      yield null;
    }
  }

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

  *_countBits(b, h, { seers, seen }) {
    for (let t = 0; t < this.T; t++) {
      const [first, last] = this.span(b, h, t);
      for (let s = first; s < last; s++)
        if (this._bit(b, h, t, s)) {
          seen[t]++;
          seers[s]++;
        }
      if (t % 64 === 63) yield null;
    }
  }

  // What tells heads apart, each 0 to 1: their entropy over its bound, and the mean weight on the first token, on the
  // token before, and on what followed the same token earlier, over the queries that could.
  *_like(b, h, left, { entropy, seen, received, seers }) {
    const like = { entropy: spread({ entropy, seen }), first: seers[0] ? received[0] / seers[0] : null };
    if (this.beside) return like;
    for (const [name, key] of Object.entries(this.targets())) like[name] = yield* this._mean(b, h, left, key);
    return like;
  }

  /** Which key each query is asked about, by what its head would be like: −1 for none. @returns {Record<string, (t: number) => number>} */
  targets() {
    if (this.meta.name === "cross") return {};
    const ahead = this.S - this.T,
      previous = (t) => t + ahead - 1;
    if (!this.keys) return { previous };
    const after = new Int32Array(this.S).fill(-1),
      before = new Map();
    this.keys.forEach((key, s) => {
      if (before.has(key)) after[s] = before.get(key) + 1;
      before.set(key, s);
    });
    return { previous, induction: (t) => after[t + ahead] ?? -1 };
  }

  // The mean weight on one key for each query, over those that may see theirs.
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

  // Bins of the overview that lie outside all spans are masked.
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

  // What a pass found; undefined before it is done.
  scan(b, h, left = null) {
    return this.scans.get(this.scanned(b, h, left));
  }

  scanned(b, h, left) {
    return `${b} ${h} ${left?.id}`;
  }
}

// Largest cell of each bin, by the rule of adaptive pooling: bin i of n holds ⌊i·L/n⌋ ≤ index < ⌈(i+1)·L/n⌉.
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

// First and last bin that hold an index.
export function bins(index, length, count) {
  return [Math.floor((index * count) / length), Math.min(count, Math.ceil(((index + 1) * count) / length)) - 1];
}

// Places and values of the k largest numbers, largest first, ties to the lower place; masked ones are left out.
export function largest(values, k) {
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

/** The mean or the largest of several heads' cells, MASKED where none may look. */
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

// The mean entropy of queries that have a choice, over its bound.
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
