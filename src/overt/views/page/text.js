// The text itself: up to sixty tokens as two rows with lines between, more as running text around the chosen cell.

/** @import { App } from "./app.js" */
/** @import { Cells, Side } from "./types.js" */
/** @import { Units } from "./words.js" */

import { byId, counted, drawn, element, shortened } from "./dom.js";
import { legend } from "./legend.js";
import { weightText } from "./look.js";
import { color, inkOn, lost } from "./shades.js";
import { MASKED } from "./weights.js";

/** Tokens that fit two rows with lines between. */
export const FEW = 60;
// Names around the chosen one that running text shows.
const AROUND = 150;
// Lines fainter than this are nobody's first glance.
const FAINT = 0.02;

export class Text {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.host = byId("text-panel");
    this.svg = byId("lines");
    /** The token under the pointer. @type {{side: Side, i: number} | null} */
    this.preview = null;
    this.built = { queries: "", keys: "" };
    this.first = { queries: 0, keys: 0 };
    for (const side of ["queries", "keys"])
      byId(side).addEventListener("pointerleave", () => this._hover(null));
    new ResizeObserver(() => this.few && this._lines()).observe(this.host);
  }

  /** @returns {boolean} whether all tokens are shown, with lines */
  get few() {
    const { rows, columns } = this.app.look;
    return rows.length <= FEW && columns.length <= FEW;
  }

  draw() {
    const { app } = this,
      { row, column } = app.profile,
      { look } = app;
    this.host.classList.toggle("few", this.few);
    this._chips("queries", look.rows, app.query, app.part.meta.prompt);
    this._chips("keys", look.columns, app.key, null);
    if (this.few) this._across();
    this.preview = null;
    this._shade(row, column);
    this._scroll("queries", app.query);
    this._scroll("keys", app.key);
  }

  // Side by side, or one above the other where the rows are too wide.
  _across() {
    this.host.classList.remove("upright");
    const wide = ["queries", "keys"].some((id) => byId(id).scrollWidth > byId(id).clientWidth + 1);
    this.host.classList.toggle("upright", wide);
  }

  /** @param {Side} side @param {Units} units @param {number} around @param {number | null} prompt */
  _chips(side, units, around, prompt) {
    const start = this.few ? 0 : Math.max(0, Math.min(around - AROUND, units.length - 2 * AROUND)),
      end = this.few ? units.length : Math.min(units.length, start + 2 * AROUND),
      key = `${this.app.look.key} ${start} ${end}`;
    if (this.built[side] === key) return;
    this.built[side] = key;
    this.first[side] = start;
    const { app } = this,
      chips = [];
    if (start) chips.push(element("small", {}, `… ${counted(start)} before …`));
    for (let i = start; i < end; i++)
      chips.push(
        element(
          "button",
          {
            class: `chip${prompt !== null && i >= prompt ? " made" : ""}`,
            onclick: (/** @type {MouseEvent} */ event) => {
              const more = event.shiftKey || event.ctrlKey || event.metaKey;
              if (side === "keys") more ? app.mark(i) : app.go(app.query, i, "key");
              else more ? app.toggle(i) : app.go(i, app.key, "query");
            },
            onpointerenter: () => this._hover({ side, i }),
            onfocus: () => this._hover({ side, i }),
          },
          element("bdi", {}, shortened(units.name(i), 40)),
        ),
      );
    if (end < units.length) chips.push(element("small", {}, `… ${counted(units.length - end)} after …`));
    byId(side).replaceChildren(...chips);
  }

  /** @param {{side: Side, i: number} | null} preview */
  _hover(preview) {
    const { app } = this;
    if (!this.few || (preview?.side === this.preview?.side && preview?.i === this.preview?.i)) return;
    this.preview = preview;
    app.attempt(() => {
      if (this.preview !== preview) return;
      /** @type {{row: Cells | null, column: Cells | null}} */
      let { row, column } = app.profile;
      if (preview?.side === "queries") row = app.look.cells(preview.i, preview.i + 1, 0, app.look.columns.length);
      if (preview?.side === "keys") column = app.look.cells(0, app.look.rows.length, preview.i, preview.i + 1);
      this._shade(row, column);
    });
  }

  /** @param {Cells | null} row @param {Cells | null} column */
  _shade(row, column) {
    const { app } = this,
      queries = app.selected.size ? app.selected : new Set([app.query]),
      keys = app.marked.size ? app.marked : new Set([app.key]);
    if (row) this._side("keys", app.look.columns, row, keys);
    if (column) this._side("queries", app.look.rows, column, queries);
    if (this.few) this._lines();
    else this._legend(row);
  }

  /** What the shades mean. @param {Cells | null} shown the weights that are shaded, null until they are worked out */
  _legend(shown) {
    const { heads, look } = this.app;
    legend(this.app, byId("text-legend"), heads.scale, "exact cells", look, shown !== null && lost(shown, heads.scale));
  }

  /** @param {Side} side @param {Units} units @param {Cells} weights @param {Set<number>} chosen */
  _side(side, units, weights, chosen) {
    const { theme, heads } = this.app,
      { scale } = heads,
      /** @type {NodeListOf<HTMLElement>} */
      chips = byId(side).querySelectorAll(".chip");
    chips.forEach((chip, j) => {
      const i = this.first[side] + j,
        w = weights[i],
        level = scale.level(w),
        key = side === "keys" ? i : this.app.key;
      chip.title = `${units.name(i).slice(0, 60)} · ${i} · ${weightText(this.app.look, w, key, 4)}`;
      chip.setAttribute("aria-pressed", String(chosen.has(i)));
      chip.classList.toggle("chosen", chosen.has(i));
      chip.classList.toggle("unseen", w === MASKED);
      chip.style.background = w === MASKED ? "" : color(theme.ramp, level);
      chip.style.color = w === MASKED ? "" : inkOn(theme.ramp, level);
    });
  }

  // A line from each query to what it looks at: strong from what is chosen or under the pointer.
  _lines() {
    const { app, svg } = this,
      { look } = app,
      upright = this.host.classList.contains("upright"),
      box = svg.getBoundingClientRect();
    if (!box.width) return;
    const places = (/** @type {Side} */ side) =>
      [...byId(side).querySelectorAll(".chip")].map((chip) => {
        const own = chip.getBoundingClientRect();
        return upright ? own.top + own.height / 2 - box.top : own.left + own.width / 2 - box.left;
      });
    app.attempt(() => {
      const w = look.cells(0, look.rows.length, 0, look.columns.length),
        from = places("queries"),
        to = places("keys"),
        { scale } = app.heads,
        /** @type {[boolean, Element][]} */
        lines = [];
      svg.setAttribute("viewBox", `0 0 ${box.width} ${box.height}`);
      const strong = (/** @type {number} */ r, /** @type {number} */ c) => {
        if (this.preview) return this.preview.i === (this.preview.side === "queries" ? r : c);
        if (app.side === "key") return app.marked.size ? app.marked.has(c) : c === app.key;
        return app.selected.size ? app.selected.has(r) : r === app.query;
      };
      for (let r = 0; r < from.length; r++)
        for (let c = 0; c < to.length; c++) {
          const weight = w[r * to.length + c],
            level = scale.level(weight),
            sure = strong(r, c);
          if (!(weight > 0) || level < (sure ? FAINT : 2 * FAINT)) continue;
          const [far, near] = upright ? [box.width, 0] : [box.height, 0],
            [a, b] = [from[r], to[c]],
            half = far / 2;
          lines.push([
            sure,
            drawn(svg, "path", {
              d: upright
                ? `M${near} ${a}C${half} ${a} ${half} ${b} ${far} ${b}`
                : `M${a} ${near}C${a} ${half} ${b} ${half} ${b} ${far}`,
              class: sure ? "strong" : "",
              "stroke-width": (0.6 + 5 * level).toFixed(2),
              "stroke-opacity": (sure ? 0.25 + 0.75 * level : 0.4 * level).toFixed(3),
            }),
          ]);
        }
      // What is strong lies on top.
      svg.replaceChildren(...lines.sort((a, b) => Number(a[0]) - Number(b[0])).map(([, line]) => line));
      this._legend(w);
    });
  }

  /** Within its own box: the page itself stays where it is. @param {Side} side @param {number} i */
  _scroll(side, i) {
    const host = byId(side),
      chip = host.querySelectorAll(".chip")[i - this.first[side]];
    if (!chip) return;
    const box = host.getBoundingClientRect(),
      own = chip.getBoundingClientRect();
    if (own.top < box.top || own.bottom > box.bottom)
      host.scrollTop += own.top - box.top - (box.height - own.height) / 2;
    if (own.left < box.left || own.right > box.right)
      host.scrollLeft += own.left - box.left - (box.width - own.width) / 2;
  }
}
