// Two heads, texts or models beside each other, or what the second has more than the first.

/** @import { App } from "./app.js" */
/** @import { State } from "./store.js" */

import { byId, element } from "./dom.js";
import { legend } from "./legend.js";
import { Difference, Look } from "./look.js";
import { Matrix } from "./matrix.js";

/** A head, or the mean or the largest of all, as a number. @param {State["how"]} how @param {number} head */
const numbered = (how, head) => ({ one: head, mean: -1, max: -2 })[how];
/** @param {number} head @returns {State["how"]} */
const howOf = (head) => (head === -1 ? "mean" : head === -2 ? "max" : "one");

export class Compare {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {Look | null} */
    this.other = null;
    /** @type {Difference | null} */
    this.difference = null;
    const look = { first: () => app.look, second: () => this.other ?? app.look, difference: () => this._difference() },
      panes = /** @type {const} */ (["first", "second", "difference"]);
    /** @type {Matrix[]} */
    this.matrices = panes.map((name) => {
      const matrix = new Matrix(byId(name), app, look[name], (scale, what) => legend(app, byId(`${name}-legend`), scale, what, matrix.look, matrix.lost));
      matrix.linked = (moved) => this._follow(moved);
      return matrix;
    });
    byId("second-part").replaceChildren(
      ...app.parts.map((part) => element("option", { value: part.index }, app.title(part))),
    );
    const places = /** @type {const} */ (["part", "row", "head"]),
      chosen = () => places.map((name) => Number(byId(`second-${name}`).value));
    for (const name of places) byId(`second-${name}`).addEventListener("change", () => app.store.change({ second: chosen() }));
    byId("apart").addEventListener("change", () => app.store.change({ apart: byId("apart").value === "apart" }));
    byId("swap").addEventListener("click", () => this._swap());
  }

  _swap() {
    const { app } = this,
      [part, row, head] = app.store.state.second,
      { state } = app.store,
      now = [state.part, state.row, numbered(state.how, state.head)];
    app.store.change({ second: now });
    app.choose(part, Math.max(0, head), row, howOf(head));
  }

  get shown() {
    const [first, second, difference] = this.matrices;
    return this.alike && !this.app.store.state.apart ? [difference] : [first, second];
  }

  get alike() {
    const { look } = this.app;
    return this.other && this.other.rows.length === look.rows.length && this.other.columns.length === look.columns.length;
  }

  _difference() {
    const { look } = this.app,
      key = `${look.key} − ${this.other?.key}`;
    if (!this.alike || !this.other) return look;
    if (this.difference?.key !== key) this.difference = new Difference(look, this.other);
    return this.difference;
  }

  /** Two matrices of one size show the same cells. @param {Matrix} moved */
  _follow(moved) {
    if (!this.alike) return;
    for (const other of this.matrices) {
      if (other === moved || !this.shown.includes(other)) continue;
      Object.assign(other.view, moved.view);
      other._whole(moved.whole);
    }
  }

  /** Follow what the state says. */
  async update() {
    const { app } = this;
    let [index, row, head] = app.store.state.second;
    if (index === undefined) [index, row, head] = this._neighbour();
    const part = await app.opened(Math.min(index, app.parts.length - 1)),
      before = this.other?.part;
    row = Math.min(row, part.B - 1);
    head = Math.min(head, part.H - 1);
    this.other = new Look(part, row, Math.max(0, head), howOf(head), app.words, app.leftOf(part));
    byId("second-part").value = String(part.index);
    const heads = Array.from({ length: part.H }, (_, h) => element("option", { value: h }, `head ${h}`));
    if (part.H > 1) heads.push(element("option", { value: -1 }, "mean of all"), element("option", { value: -2 }, "largest of all"));
    byId("second-head").replaceChildren(...heads);
    byId("second-head").value = String(head);
    byId("second-row-label").hidden = part.B < 2;
    byId("second-row").replaceChildren(...Array.from({ length: part.B }, (_, b) => element("option", { value: b }, String(b))));
    byId("second-row").value = String(row);
    byId("apart").disabled = !this.alike;
    byId("apart").value = app.store.state.apart || !this.alike ? "apart" : "difference";
    byId("first-title").textContent = app.nameOf(app.look);
    byId("second-title").textContent = app.nameOf(this.other);
    byId("unlike").hidden = Boolean(this.alike);
    for (const name of ["first", "second", "difference"])
      byId(`${name}-pane`).hidden = !this.shown.some(({ canvas }) => canvas.id === name);
    // What was hidden has no size until now.
    for (const matrix of this.shown) {
      if (before !== part) matrix.fit();
      else matrix.resized();
    }
    app.refresh();
  }

  // The same of the other text or model, the next head, or else the next attention.
  _neighbour() {
    const { part, row, head, how, parts } = this.app,
      { name, layer, source } = part.meta,
      others = parts.filter(({ meta }) => meta.source !== source && meta.name === name),
      // The models may differ in depth.
      other = others.find(({ meta }) => meta.layer === layer) ?? others.at(-1);
    if (other) return [other.index, row, numbered(how, head)];
    if (part.H > 1) return [part.index, row, (head + 1) % part.H];
    return [(part.index + 1) % this.app.parts.length, row, 0];
  }

  draw() {
    const draw = () => {
      for (const matrix of this.shown) this.app.attempt(() => matrix.draw(), () => this.app.redraw());
    };
    for (const matrix of this.shown) matrix.beside = 0;
    draw();
    // What is compared is compared on one scale.
    if (new Set(this.shown.map(({ scale }) => scale?.key)).size < 2) return;
    const peak = Math.max(...this.shown.map((matrix) => matrix.peak));
    for (const matrix of this.shown) matrix.beside = peak;
    draw();
  }
}
