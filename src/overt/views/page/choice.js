// What there is to look at and what of it is chosen: every act of a reader is a change of the state.

/** @import { State } from "./store.js" */
/** @import { Left, Meta } from "./types.js" */

import { Attention } from "./cells.js";
import { byId } from "./dom.js";
import { LeftOut, Look } from "./look.js";
import { Python, Remote } from "./remote.js";
import { Store } from "./store.js";
import { FEW } from "./text.js";
import { special } from "./words.js";

export class Choice {
  /** @type {Look} */
  look;
  /** Selected queries. @type {Set<number>} */
  selected;
  /** Selected keys. @type {Set<number>} */
  marked;

  /** @param {Meta} meta */
  constructor(meta) {
    this.meta = meta;
    const python = meta.remote ? new Python() : null;
    this.parts = meta.parts.map((part, i) =>
      python && !part.q ? new Remote(part, meta.lists, i, python) : new Attention(part, meta.lists, i),
    );
    this.longest = Math.max(...this.parts.map((part) => part.S));
    this.store = new Store((before) => this._changed(before));
    /** Which side of the cell was chosen last: its lines are shown. @type {"query" | "key"} */
    this.side = "query";
    /** Keys that are left out, by attention and wish. @type {Map<string, Left>} */
    this.lefts = new Map();
  }

  get state() {
    return this.store.state;
  }
  get part() {
    return this.parts[this.state.part];
  }
  get row() {
    return this.state.row;
  }
  get head() {
    return this.state.head;
  }
  get how() {
    return this.state.how;
  }
  get words() {
    return this.state.words;
  }
  get wish() {
    return this.state.wish;
  }
  get query() {
    return this.state.query;
  }
  get key() {
    return this.state.key;
  }
  get tabName() {
    return this.state.tab;
  }
  get rows() {
    return this.look.rows;
  }
  get columns() {
    return this.look.columns;
  }
  /** Whether the text is what is seen first. */
  get few() {
    return this.part.T <= FEW && this.part.S <= FEW;
  }
  /** Weights of a box of units. @param {number} r0 @param {number} r1 @param {number} c0 @param {number} c1 */
  cells(r0, r1, c0, c1) {
    return this.look.cells(r0, r1, c0, c1);
  }

  /** An attention, when its numbers are here. @param {number} index */
  async opened(index) {
    return this.parts[index].open();
  }

  /** The row of the batch that is shown of an attention. @param {Attention} part */
  rowOf(part) {
    return Math.min(this.row, part.B - 1);
  }

  /** The keys of an attention that are left out, null for none. @param {Attention} part @returns {Left} */
  leftOf(part) {
    const { left } = this.state,
      id = `${part.index} ${left}`;
    if (!left) return null;
    const known = this.lefts.get(id);
    if (known !== undefined) return known;
    /** @type {number[]} */
    let keys = [];
    if (left === "first") keys = [0];
    else if (left === "special") keys = (part.keys ?? []).flatMap((key, s) => (special(key) ? [s] : []));
    // Keys by number are those of attentions over the same tokens.
    else if (part.S === this.part.S) keys = left.split(",").map(Number).filter((s) => s >= 0 && s < part.S);
    const found = keys.length && keys.length < part.S ? new LeftOut(left, keys.sort((a, b) => a - b), part.S) : null;
    this.lefts.set(id, found);
    return found;
  }

  /** Choose an attention and a head of it. @param {number} index @param {number} head */
  async choose(index, head, row = this.row, how = this.how) {
    await this.opened(index);
    const part = this.parts[index];
    this.store.change({ part: index, head: Math.min(head, part.H - 1), row: Math.min(row, part.B - 1), how });
  }

  /** @param {number} index @param {number} head */
  pick(index, head) {
    return this.choose(index, head, this.row, "one");
  }

  /** @param {number} index @param {number} head */
  compareWith(index, head) {
    this.store.change({ second: [index, this.rowOf(this.parts[index]), head], tab: "compare" });
  }

  /** Choose a cell. @param {number} r @param {number} c */
  go(r, c, side = this.side) {
    this.side = side;
    this.store.change({
      query: Math.max(0, Math.min(this.rows.length - 1, r)),
      key: Math.max(0, Math.min(this.columns.length - 1, c)),
    });
  }

  /** Select a query, or no longer. @param {number} r */
  toggle(r) {
    this.side = "query";
    this.store.change({ selected: turned(this.selected, r), query: r });
  }

  /** Select a key, or no longer. @param {number} c */
  mark(c) {
    this.side = "key";
    this.store.change({ marked: turned(this.marked, c), key: c });
  }

  /** Leave keys out of all that is shown. @param {string} which "", "first", "special" or "marked" */
  leave(which) {
    let left = which;
    if (which === "marked") {
      /** @type {number[]} */
      const keys = [];
      for (const c of this.marked) for (let s = this.columns.start(c); s < this.columns.end(c); s++) keys.push(s);
      left = keys.sort((a, b) => a - b).join(",");
      if (!left) this.say("No key is selected: hold Shift and click on keys, or press k.");
    }
    this.store.change({ left });
    if (left && !this.look.left) this.say("There is no such key here, or nothing would be left.");
  }

  /** @param {State["how"]} how */
  setHow(how) {
    this.store.change({ how });
  }

  /** @param {State["tab"]} name */
  tab(name) {
    if (!byId(`${name}-tab`).hidden) this.store.change({ tab: name });
  }

  /** An attention in words. @param {Attention} part */
  title(part) {
    const { layer, name, source } = part.meta,
      alone = this.parts.filter((other) => other.meta.source === source).length === 1;
    return [source, alone && !layer && name === "attention" ? (source ? null : name) : `layer ${layer} · ${name}`]
      .filter(Boolean)
      .join(" · ");
  }

  /** What is shown, in words. @param {import("./types.js").Shown} look @returns {string} */
  nameOf(look) {
    if (look.signed) return `${this.nameOf(look.second)} − ${this.nameOf(look.first)}`;
    const { part, head, how, row } = look,
      which = { one: `head ${head} of ${part.H}`, mean: `mean of ${part.H} heads`, max: `largest of ${part.H} heads` }[how];
    return `${this.title(part)}${part.H > 1 ? ` · ${which}` : ""}${part.B > 1 ? ` · row ${row}` : ""}`;
  }

  _chosen() {
    this.selected = new Set(this.state.selected);
    this.marked = new Set(this.state.marked);
  }

  _look() {
    const { part } = this;
    this.look = new Look(part, this.row, this.head, this.how, this.words, this.leftOf(part));
    this._chosen();
  }

  // What follows is the page's.
  /** @param {State} _before */
  _changed(_before) {}
  /** Say something that went otherwise than wished. @param {string} _text */
  say(_text) {}
}

/** @param {Set<number>} set @param {number} x */
const turned = (set, x) => (set.has(x) ? [...set].filter((y) => y !== x) : [...set, x]);
