// One small picture of every head: layers down, heads across, or in the order of what they are like.

/** @import { App } from "./app.js" */
/** @import { Attention } from "./cells.js" */
/** @import { Like, Scan } from "./types.js" */

import { byId, contextOf, element } from "./dom.js";
import { highest, paint } from "./matrix.js";
import { Scale, hatching } from "./shades.js";
import { MASKED, pooled } from "./weights.js";

const SIZE = 64;
/** @type {Record<keyof Like, string>} */
const ORDERS = {
  entropy: "entropy, of the most possible",
  first: "weight on the first token",
  previous: "weight on the token before",
  induction: "weight on what followed the same token",
};

/** Where arrow keys go. @type {Map<string, [number, number]>} */
const STEPS = new Map([
  ["ArrowLeft", [-1, 0]],
  ["ArrowRight", [1, 0]],
  ["ArrowUp", [0, -1]],
  ["ArrowDown", [0, 1]],
]);
const KINDS = /** @type {const} */ (["entropy", "first", "previous", "induction"]);

// What heads are laid out together: those of one name, of one text or model.
/** @param {Attention} part */
const named = ({ meta }) => [meta.source, meta.name].filter(Boolean).join(" · ");

/** The small picture of a head. @typedef {object} Thumb
 * @property {HTMLButtonElement} button
 * @property {HTMLCanvasElement} canvas
 * @property {HTMLElement} value
 * @property {HTMLElement} cell
 * @property {Attention} part
 * @property {number} h
 * @property {{scan: Scan, key: string, values: Float32Array} | null} dots that are painted
 */

export class Heads {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {Map<string, Thumb>} */
    this.thumbs = new Map();
    this.host = byId("overview");
    this.small = document.createElement("canvas");
    this.alone = app.parts.length === 1 && app.parts[0].H === 1;
    document.body.classList.toggle("alone", this.alone);
    if (this.alone) return;
    for (const part of app.parts)
      for (let h = 0; h < part.H; h++) {
        const name = `${app.title(part)}, head ${h}`,
          canvas = element("canvas", { width: SIZE, height: SIZE, "aria-hidden": "true" }),
          value = element("small", {});
        const button = element(
          "button",
          {
            class: "thumb",
            "aria-label": name,
            title: `${name} (Shift: compare with it)`,
            tabindex: -1,
            onclick: (event) => (event.shiftKey ? app.compareWith(part.index, h) : app.pick(part.index, h)),
          },
          canvas,
          value,
        );
        const cell = element("div", { role: "gridcell" }, button);
        this.thumbs.set(`${part.index} ${h}`, { button, canvas, value, cell, part, h, dots: null });
      }
    this.host.addEventListener("keydown", (event) => this._move(event));
    this.arrange();
  }

  /** Lay the heads out in the order that is asked for. */
  arrange() {
    if (this.alone) return;
    const { app } = this,
      { order } = app.store.state,
      names = [...new Set(app.parts.map(named))];
    if (order === "layer") this.host.replaceChildren(...names.map((name) => this._grid(name)));
    else {
      const value = (/** @type {Thumb} */ { part, h }) => part.scan(app.rowOf(part), h, app.leftOf(part))?.like[order] ?? null;
      const sorted = [...this.thumbs.values()]
        .map((thumb) => ({ thumb, value: value(thumb) }))
        .sort((a, b) => (b.value ?? -1) - (a.value ?? -1));
      for (const { thumb, value } of sorted)
        thumb.value.textContent =
          `${names.length > 1 ? `${named(thumb.part)} ` : ""}${thumb.part.meta.layer}.${thumb.h} ` +
          (value === null ? "–" : value.toFixed(2));
      this.host.replaceChildren(
        element(
          "p",
          { class: "hint" },
          `layer.head by ${ORDERS[order]}: ${sorted.some(({ value }) => value !== null) ? "most first" : "there is none here"}`,
        ),
        element(
          "div",
          { class: "heads sorted", role: "grid", "aria-label": `Heads by ${ORDERS[order]}` },
          element("div", { role: "row" }, ...sorted.map(({ thumb }) => thumb.cell)),
        ),
      );
    }
    this.mark();
  }

  /** @param {string} name */
  _grid(name) {
    const { app } = this,
      parts = app.parts.filter((part) => named(part) === name),
      across = Math.max(...parts.map((part) => part.H));
    const numbers = Array.from({ length: across }, (_, h) =>
      element("span", { role: "columnheader", class: "number" }, String(h)),
    );
    const rows = parts.map((part) =>
      element(
        "div",
        { role: "row" },
        element("span", { role: "rowheader", class: "number" }, String(part.meta.layer)),
        ...Array.from({ length: part.H }, (_, h) => this.thumbs.get(`${part.index} ${h}`)?.cell ?? null),
      ),
    );
    for (const { value } of this.thumbs.values()) value.textContent = "";
    const grid = element(
      "div",
      { class: "heads", role: "grid", "aria-label": `${name}: layers down, heads across` },
      element("div", { role: "row" }, element("span", { class: "number corner-of", role: "columnheader" }, "↓→"), ...numbers),
      ...rows,
    );
    grid.style.setProperty("--across", String(across));
    return element("section", {}, element("h2", {}, `${name}: layers ↓ heads →`), grid);
  }

  /** The scale that all pictures share: that of the whole matrix. */
  get scale() {
    const { app } = this,
      coarse = app.look.signed ? null : app.look.coarse();
    return new Scale(app.wish, app.longest, coarse ? highest(coarse.values) : 1);
  }

  /** @param {Attention} part @param {number} h */
  draw(part, h, scale = this.scale) {
    const { app } = this,
      thumb = this.thumbs.get(`${part.index} ${h}`),
      scan = part.scan(app.rowOf(part), h, app.leftOf(part));
    if (!thumb || !scan) return;
    const key = `${scale.key} ${app.dark}`;
    if (thumb.dots?.scan === scan && thumb.dots.key === key) return;
    const R = Math.min(SIZE, scan.rows),
      C = Math.min(SIZE, scan.columns);
    const values =
      thumb.dots?.scan === scan
        ? thumb.dots.values
        : pooled(scan.largest, 0, scan.rows, 0, scan.columns, scan.rows, scan.columns, R, C, new Float32Array(R * C).fill(MASKED));
    thumb.dots = { scan, values, key };
    const g = contextOf(thumb.canvas);
    paint(this.small, values, R, C, scale, app.theme);
    g.imageSmoothingEnabled = false;
    g.fillStyle = hatching(g, app.theme);
    g.fillRect(0, 0, SIZE, SIZE);
    g.drawImage(this.small, 0, 0, SIZE, SIZE);
    const like = KINDS.flatMap((kind) => (typeof scan.like[kind] === "number" ? `${ORDERS[kind]}: ${scan.like[kind].toFixed(3)}` : []));
    thumb.button.title = [
      `${app.title(part)}, head ${h} (Shift: compare with it)`,
      ...like,
    ].join("\n");
  }

  drawAll() {
    if (this.alone) return;
    const { scale } = this;
    for (const { part, h } of this.thumbs.values()) this.draw(part, h, scale);
    const ends = scale.log ? `${scale.low.toExponential(0)} to 1` : `0 to ${Number(scale.high.toPrecision(3))}`;
    byId("overview-scale").textContent = `All on one scale: ${scale.name}, ${ends}`;
  }

  /** Say which heads are shown. */
  mark() {
    const { app } = this;
    for (const { button, part, h } of this.thumbs.values()) {
      const chosen = part === app.part && (app.how !== "one" || h === app.head),
        [second, , other] = app.store.state.second,
        beside = app.tabName === "compare" && second === part.index && (other === h || other < 0);
      button.setAttribute("aria-pressed", String(chosen));
      button.classList.toggle("beside", beside);
      button.tabIndex = part === app.part && h === app.head ? 0 : -1;
    }
  }

  /** Bring the chosen head into the panel's view. */
  reveal() {
    const { app } = this,
      button = this.thumbs.get(`${app.part.index} ${app.head}`)?.button;
    if (!button) return;
    const box = this.host.getBoundingClientRect(),
      own = button.getBoundingClientRect();
    if (own.top < box.top || own.bottom > box.bottom)
      this.host.scrollTop += own.top - box.top - (box.height - own.height) / 2;
    if (own.left < box.left || own.right > box.right)
      this.host.scrollLeft += own.left - box.left - (box.width - own.width) / 2;
  }

  /** Arrow keys go from head to head. @param {KeyboardEvent} event */
  _move(event) {
    /** @type {NodeListOf<HTMLElement>} */
    const thumbs = this.host.querySelectorAll(".thumb"),
      all = [...thumbs],
      at = all.indexOf(/** @type {HTMLElement} */ (document.activeElement)),
      step = STEPS.get(event.key);
    if (at < 0 || !step || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    event.stopPropagation();
    let next = all[at + step[0]];
    if (step[1]) {
      const own = all[at].getBoundingClientRect(),
        middle = own.left + own.width / 2;
      const rows = all.filter((x) => Math.sign(Math.round(x.getBoundingClientRect().top - own.top)) === step[1]);
      const distance = (/** @type {Element} */ x) => {
        const box = x.getBoundingClientRect();
        return Math.abs(box.top - own.top) * 1e3 + Math.abs(box.left + box.width / 2 - middle);
      };
      next = rows.sort((a, b) => distance(a) - distance(b))[0];
    }
    if (!next) return;
    all[at].tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
  }
}
