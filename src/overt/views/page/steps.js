// Every step of a small attention, computed again whenever somebody edits a number.

/** @import { App } from "./app.js" */
/** @import { Attention } from "./cells.js" */
/** @import { StepsMeta } from "./types.js" */

import { byId, element, shortened } from "./dom.js";
import { color, inkOn } from "./shades.js";

/** Rows of numbers. @typedef {number[][]} Lines */
/** One step: axes by letter, numbers in rows. @typedef {{name: string, formula: string, axes: string, numbers: Lines}} Step */
/** What is shown of a step. @typedef {{cells: HTMLElement[], facts: HTMLElement, editable: Lines | undefined}} Shown */

/** Of which steps the scores are a product, where these are not q and k. @type {Record<string, string>} */
const PRODUCTS = { cosine: "(unit query) (unit key)ᵀ", bilinear: "(projected query) kᵀ" };

export class Steps {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.host = byId("steps");
    /** @type {Map<Attention, Pick<StepsMeta, "q" | "k" | "v">>} */
    this.edited = new Map();
    /** Of the current head, as they were edited. @type {Record<string, Lines>} */
    this.inputs = {};
    /** By their names. @type {Map<string, Shown>} */
    this.tables = new Map();
    this.scale = 1;
  }

  /** The numbers that the page came with. @returns {StepsMeta} */
  get given() {
    const { steps } = this.app.part.meta;
    if (!steps) throw new Error("this attention has no steps");
    return steps;
  }

  // All numbers of the current attention as they were edited.
  get _edited() {
    const { part } = this.app,
      { q, k, v } = this.given,
      found = this.edited.get(part) ?? structuredClone({ q, k, v });
    this.edited.set(part, found);
    return found;
  }

  // The numbers of the current head as they were edited; heads that share a key share its edits.
  show() {
    const { row, head } = this.app,
      g = this._group,
      { q, k, v } = this._edited;
    this.inputs = { query: q[row][head], key: k[row][g], value: v[row][g] };
    this.scale = this.given.scale;
    this.draw();
  }

  // Put the numbers of the current head back.
  reset() {
    const { row, head } = this.app,
      { q, k, v } = this.given,
      g = this._group,
      edited = this._edited;
    edited.q[row][head] = structuredClone(q[row][head]);
    [edited.k[row][g], edited.v[row][g]] = structuredClone([k[row][g], v[row][g]]);
    this.show();
  }

  get _group() {
    return Math.floor(this.app.head / (this.app.part.H / this.app.part.G));
  }

  // All steps in order: name, formula, axes, numbers.
  compute() {
    const { part, row, head } = this.app,
      { kind, weights, sinks } = this.given,
      { query, key, value } = this.inputs;
    /** @type {Step[]} */
    const found = [],
      add = (/** @type {string} */ name, /** @type {string} */ formula, /** @type {string} */ axes, /** @type {Lines} */ numbers) => {
        found.push({ name, formula, axes, numbers });
        return numbers;
      };
    add("query", "q", "T D", query);
    add("key", "k", "S D", key);
    /** @type {Lines} */
    let scores;
    if (kind === "additive") {
      const projected = add(
        "projected query",
        "q W_qᵀ + b",
        "T A",
        times(query, turned(weights.query_weight)).map((line) => line.map((x, i) => x + weights.bias[i])),
      );
      const keys = add("projected key", "k W_kᵀ", "S A", times(key, turned(weights.key_weight)));
      scores = add(
        "scores",
        "v_a · tanh(projected query + projected key)",
        "T S",
        projected.map((q) => keys.map((k) => q.reduce((sum, x, i) => sum + weights.v[i] * Math.tanh(x + k[i]), 0))),
      );
    } else {
      let left = query,
        right = key;
      if (kind === "cosine") {
        left = add("unit query", "q / ‖q‖", "T D", query.map(unit));
        right = add("unit key", "k / ‖k‖", "S D", key.map(unit));
      } else if (kind === "bilinear") left = add("projected query", "q W", "T D", times(query, weights.weight));
      scores = add("scores", PRODUCTS[kind] ?? "q kᵀ", "T S", times(left, turned(right)));
      const width = query[0].length;
      if (this.scale !== 1)
        scores = add(
          "scaled",
          Math.abs(this.scale * this.scale * width - 1) < 1e-12 ? `scores / √${width}` : `scores · ${+this.scale.toPrecision(6)}`,
          "T S",
          scores.map((line) => line.map((x) => x * this.scale)),
        );
    }
    const last = () => found[found.length - 1].name,
      cells = (/** @type {(x: number, t: number, s: number) => number} */ f) => scores.map((line, t) => line.map((x, s) => f(x, t, s))),
      cap = part.meta.softcap;
    if (cap !== null)
      scores = add(
        "capped",
        `${cap} tanh(${last()} / ${cap})`,
        "T S",
        cells((x) => cap * Math.tanh(x / cap)),
      );
    if (part.meta.bias)
      scores = add(
        "biased",
        `${last()} + bias`,
        "T S",
        cells((x, t, s) => x + part.bias(row, head, t, s)),
      );
    if (part.meta.mask !== null)
      scores = add(
        "masked",
        `${last()}, −∞ where the mask is False`,
        "T S",
        cells((x, t, s) => (part.visible(row, head, t, s) ? x : -Infinity)),
      );
    const taken = last(),
      sink = sinks ? sinks[head] : -Infinity;
    const lse = scores.map((line) => {
      const top = Math.max(sink, ...line);
      if (top === -Infinity) return top;
      return top + Math.log(line.reduce((sum, x) => sum + Math.exp(x - top), Math.exp(sink - top)));
    });
    add(
      "lse",
      sinks ? `log(exp(sink) + Σ exp(${taken}))` : `log Σ exp(${taken})`,
      "T",
      lse.map((x) => [x]),
    );
    const w = add(
      "weights",
      `softmax(${taken}${sinks ? ", sink" : ""}) = exp(${taken} − lse)`,
      "T S",
      cells((x, t) => (x === -Infinity ? 0 : Math.exp(x - lse[t]))),
    );
    add("value", "v", "S E", value);
    add("output", "weights v", "T E", times(w, value));
    return found;
  }

  draw() {
    this.tables = new Map();
    const cards = this.compute().map((step, i) => this._card(step, i));
    this.host.replaceChildren(
      element(
        "div",
        { class: "explain" },
        element(
          "p",
          {},
          "Edit any number of the query, the key or the value: every step is computed again, here, in double precision.",
        ),
        element("button", { onclick: () => this.reset() }, "Put the numbers back"),
      ),
      ...cards,
    );
    this.update();
  }

  /** @param {Step} step @param {number} i */
  _card(step, i) {
    const { part } = this.app,
      [down, across] = step.axes.split(" ");
    const name = (/** @type {string} */ axis, /** @type {number} */ j) => (axis === "T" ? part.query(j) : axis === "S" ? part.key(j) : String(j));
    /** @type {Lines | undefined} */
    const editable = this.inputs[step.name];
    /** @type {HTMLElement[]} */
    const cells = [];
    const head = element(
      "tr",
      {},
      element("th", {}),
      ...(across
        ? step.numbers[0].map((_, j) =>
            element("th", { scope: "col" }, element("bdi", {}, shortened(name(across, j), 14))),
          )
        : []),
    );
    const lines = step.numbers.map((line, r) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, element("bdi", {}, shortened(name(down, r), 14))),
        ...line.map((x, c) => {
          const cell = element("td", {});
          if (editable) {
            const input = element("input", {
              type: "number",
              step: "any",
              "aria-label": `${step.name} ${shortened(name(down, r), 14)}, ${c}`,
            });
            input.value = String(+x.toPrecision(5));
            input.addEventListener("input", () => {
              const typed = Number(input.value),
                good = input.value.trim() !== "" && Number.isFinite(typed);
              input.setAttribute("aria-invalid", String(!good));
              if (!good) return;
              this.inputs[step.name][r][c] = typed;
              this.update();
            });
            cell.append(input);
          }
          cells.push(cell);
          return cell;
        }),
      ),
    );
    const facts = element("small", { class: "facts" });
    this.tables.set(step.name, { cells, facts, editable });
    return element(
      "section",
      { class: "step" },
      element(
        "h3",
        {},
        element("span", { class: "ordinal" }, String(i + 1)),
        `${step.name} `,
        element("code", {}, `= ${step.formula}`),
      ),
      facts,
      element(
        "div",
        { class: "scroll" },
        element("table", {}, element("thead", {}, head), element("tbody", {}, ...lines)),
      ),
    );
  }

  update() {
    /** @type {number | null} */
    let before = null;
    for (const step of this.compute()) {
      const shown = this.tables.get(step.name);
      if (!shown) continue;
      const { cells, facts, editable } = shown,
        flat = step.numbers.flat();
      const { mean, variance } = moments(flat),
        sizes = step.axes.split(" ").map((axis, i) => `${axis} ${i ? step.numbers[0].length : step.numbers.length}`);
      let text = `${sizes.join(" × ")} · mean ${short(mean)} · variance ${short(variance)}`;
      if (step.name === "scaled" && before !== null) text += ` · it was ${short(before)} before scaling`;
      facts.textContent = text;
      before = variance;
      if (!editable)
        flat.forEach((x, i) => {
          const text = x === -Infinity ? "−∞" : short(x);
          cells[i].classList.toggle("changed", cells[i].textContent !== "" && cells[i].textContent !== text);
          cells[i].textContent = text;
          if (step.name !== "weights") return;
          const { app } = this,
            { ramp } = app.theme,
            level = Math.min(1, Math.max(0, x)),
            S = step.numbers[0].length,
            hidden = app.part.meta.mask !== null && !app.part.visible(app.row, app.head, Math.floor(i / S), i % S);
          // What is masked is told from zero.
          cells[i].classList.toggle("masked", hidden);
          cells[i].style.background = hidden ? "" : color(ramp, level);
          if (hidden) cells[i].style.color = "";
          if (hidden) return;
          cells[i].style.color = inkOn(ramp, level);
        });
    }
  }
}

/** @param {Lines} x @returns {Lines} */
const turned = (x) => (x.length ? x[0].map((_, i) => x.map((line) => line[i])) : []);
/** @param {Lines} a @param {Lines} b @returns {Lines} */
const times = (a, b) =>
  a.map((line) => (b.length ? b[0].map((_, j) => line.reduce((sum, x, i) => sum + x * b[i][j], 0)) : []));

/** @param {number[]} x */
function unit(x) {
  const length = Math.hypot(...x);
  return length ? x.map((y) => y / length) : x;
}

/** @param {number[]} numbers */
function moments(numbers) {
  const finite = numbers.filter(Number.isFinite),
    mean = finite.reduce((a, b) => a + b, 0) / finite.length;
  return { mean, variance: finite.reduce((sum, x) => sum + (x - mean) ** 2, 0) / finite.length };
}

/** @param {number} x */
function short(x) {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "–" : String(x);
  return Math.abs(x) >= 1e5 || (x !== 0 && Math.abs(x) < 5e-5) ? x.toExponential(2) : x.toFixed(4);
}
