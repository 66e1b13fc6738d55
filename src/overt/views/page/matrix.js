// The matrix on a canvas: from the whole, pooled, down to single exact cells with names.

/** @import { App } from "./app.js" */
/** @import { Box, Cells, Coarse, Shown, Theme } from "./types.js" */

import { axes, margins } from "./axes.js";
import { contextOf } from "./dom.js";
import { Picture } from "./picture.js";
import { pointing } from "./pointers.js";
import { Remote } from "./remote.js";
import { Scale, hatching, inkOn, lost, rampOf } from "./shades.js";
import { Viewport } from "./viewport.js";
import { MASKED, largest } from "./weights.js";

export class Matrix extends Viewport {
  /**
   * @param {HTMLCanvasElement} canvas
   * @param {App} app
   * @param {() => Shown} look what it shows
   * @param {(scale: Scale | null, what: string, matrix: Matrix) => void} legend
   */
  constructor(canvas, app, look, legend) {
    super(canvas, look, () => {
      this.linked?.(this);
      app.moved();
    });
    this.app = app;
    this.legend = legend;
    /** Told when it has moved. @type {((moved: Matrix) => void) | null} */
    this.linked = null;
    this.context = contextOf(canvas);
    this.dots = document.createElement("canvas");
    this.painted = "";
    this.picture = new Picture(app, canvas.id);
    this.exact = false;
    /** What was painted last: a box of units as R × C dots. @type {Box & {R: number, C: number}} */
    this.drawn = { r0: 0, r1: 1, c0: 0, c1: 1, R: 1, C: 1 };
    /** @type {Scale | null} */
    this.scale = null;
    this.lost = false;
    /** The largest weight that is seen here, and in what stands beside it. */
    this.peak = this.beside = 0;
    pointing(this);
  }

  get cached() {
    return this.picture.cached;
  }

  /** The cells r0 ≤ r < r1, c0 ≤ c < c1 that one dot of the picture under a point stands for. @param {number} px @param {number} py @returns {[number, number, number, number]} */
  bin(px, py) {
    const { left, top } = this.inside,
      { r0, r1, c0, c1, R, C } = this.drawn;
    /** @param {number} place @param {number} from @param {number} to @param {number} count @returns {[number, number]} */
    const of = (place, from, to, count) => {
      const i = Math.max(0, Math.min(count - 1, Math.floor(((place - from) * count) / (to - from))));
      return [
        from + Math.floor((i * (to - from)) / count),
        from + Math.min(to - from, Math.ceil(((i + 1) * (to - from)) / count)),
      ];
    };
    return [
      ...of(this.view.y + (py - top) / this.view.sy, r0, r1, R),
      ...of(this.view.x + (px - left) / this.view.sx, c0, c1, C),
    ];
  }

  /** The heaviest cell of a bin, the first of all that is masked. @param {[number, number, number, number]} bin */
  heaviest([r0, r1, c0, c1]) {
    if (r1 - r0 === 1 && c1 - c0 === 1) return { r: r0, c: c0 };
    let w = this.look.cells(r0, r1, c0, c1);
    if (this.look.signed) w = Float64Array.from(w, (x) => (x === MASKED ? x : Math.abs(x - 0.5)));
    const best = largest(w, 1),
      at = best.length ? best[0][0] : 0;
    return { r: r0 + Math.floor(at / (c1 - c0)), c: c0 + (at % (c1 - c0)) };
  }

  draw() {
    const { canvas, context: g, view, app, look } = this,
      area = canvas.getBoundingClientRect();
    if (!area.width) return;
    const ratio = window.devicePixelRatio || 1,
      theme = app.theme,
      seen = this.window;
    // First of all, for the cells may have to be waited for.
    const { box, R, C, values, coarse } = this.picture.of(
      look,
      seen,
      Math.min(seen.r1 - seen.r0, Math.ceil(this.inside.height)),
      Math.min(seen.c1 - seen.c0, Math.ceil(this.inside.width)),
    );
    const W = Math.round(area.width * ratio),
      H = Math.round(area.height * ratio);
    if (canvas.width !== W || canvas.height !== H) {
      canvas.width = W;
      canvas.height = H;
    }
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, area.width, area.height);
    const { left, top, width, height } = this.inside,
      shown = values ?? coarse?.values;
    this.exact = values !== null && R === box.r1 - box.r0 && C === box.c1 - box.c0;
    this.scale = null;
    g.save();
    g.beginPath();
    g.rect(left, top, Math.min(width, look.columns.length * view.sx), Math.min(height, look.rows.length * view.sy));
    g.clip();
    g.fillStyle = hatching(g, theme);
    g.fillRect(left, top, width, height);
    if (shown) {
      const rows = coarse && !values ? coarse.rows : R,
        columns = coarse && !values ? coarse.columns : C,
        at = values ? box : { r0: 0, r1: look.rows.length, c0: 0, c1: look.columns.length },
        scale = this._scale(shown, values ? null : coarse);
      this.scale = scale;
      this.lost = lost(shown, scale);
      this.drawn = { ...at, R: rows, C: columns };
      this._paint(shown, rows, columns, scale, theme);
      g.imageSmoothingEnabled = false;
      g.drawImage(
        this.dots,
        left + (at.c0 - view.x) * view.sx,
        top + (at.r0 - view.y) * view.sy,
        (at.c1 - at.c0) * view.sx,
        (at.r1 - at.r0) * view.sy,
      );
      if (this.exact) this._details(box, C, shown, scale, theme);
      const bins = `${Math.ceil((box.r1 - box.r0) / R)} × ${Math.ceil((box.c1 - box.c0) / C)}`,
        most = look.signed ? "farthest from none" : "largest";
      this.legend(
        scale,
        values
          ? this.exact
            ? "exact cells"
            : `${most} of each ${bins} cells`
          : `overview${coarse?.rough ? ", with what is left out" : ""}${this.picture.wanted ? ", in more detail in a moment" : ": zoom in for exact cells"}`,
        this,
      );
    } else {
      this.drawn = { ...box, R: box.r1 - box.r0, C: box.c1 - box.c0 };
      g.fillStyle = theme.masked;
      g.fillRect(left, top, width, height);
      const { progress = null } = look.part instanceof Remote ? look.part : {},
        now = progress !== null ? `overview ${Math.round(progress * 100)} % done` : "too many cells";
      this.legend(null, this.picture.wanted ? "computing …" : `${now}: zoom in for exact cells`, this);
    }
    this._cursor(theme);
    g.restore();
    axes(this, box, theme);
    margins(this, box, theme);
  }

  /** One scale for all pictures, unless nothing that is seen would show on it. @param {Cells} values @param {Coarse | null} coarse */
  _scale(values, coarse) {
    const { app, look } = this;
    const whole = coarse ?? (app.wish === "largest" ? look.coarse() : null);
    this.peak = highest(whole ? whole.values : values, look.signed);
    return new Scale(app.wish, app.longest, Math.max(this.peak, this.beside), look.signed);
  }

  /** @param {Float32Array} values @param {number} rows @param {number} columns @param {Scale} scale @param {Theme} theme */
  _paint(values, rows, columns, scale, theme) {
    const { app } = this,
      key = `${this.cached.values === values ? this.cached.key : `coarse ${this.look.key}`} ${scale.key} ${app.dark}`;
    if (this.painted === key) return;
    this.painted = key;
    paint(this.dots, values, rows, columns, scale, theme);
  }

  /** Gaps between cells and numbers, where there is room. @param {Box} box @param {number} C @param {Cells} values @param {Scale} scale @param {Theme} theme */
  _details(box, C, values, scale, theme) {
    const { context: g, view } = this,
      { left, top } = this.inside,
      size = Math.min(view.sx, view.sy),
      numbers = view.sx >= 40 && view.sy >= 20,
      table = rampOf(theme, scale);
    if (size <= 11) return;
    g.lineWidth = 1;
    g.font = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
    g.textAlign = "center";
    g.textBaseline = "middle";
    for (let r = box.r0; r < box.r1; r++)
      for (let c = box.c0; c < box.c1; c++) {
        const x = left + (c - view.x) * view.sx,
          y = top + (r - view.y) * view.sy,
          w = values[(r - box.r0) * C + c - box.c0];
        g.strokeStyle = theme.gap;
        g.strokeRect(x + 0.5, y + 0.5, view.sx, view.sy);
        if (!numbers || w === MASKED) continue;
        g.fillStyle = inkOn(table, scale.level(w));
        g.fillText(cellText(scale.signed ? 2 * w - 1 : w, scale.signed), x + view.sx / 2, y + view.sy / 2);
      }
  }

  /** @param {Theme} theme */
  _cursor(theme) {
    const { context: g, view, app, look } = this,
      { left, top, width, height } = this.inside;
    if (app.query >= look.rows.length || app.key >= look.columns.length) return;
    const y = top + (app.query - view.y) * view.sy,
      x = left + (app.key - view.x) * view.sx;
    const wide = Math.min(width, look.columns.length * view.sx),
      high = Math.min(height, look.rows.length * view.sy);
    g.fillStyle = theme.band;
    for (const r of app.selected) g.fillRect(left, top + (r - view.y) * view.sy, wide, Math.max(view.sy, 2));
    for (const c of app.marked) g.fillRect(left + (c - view.x) * view.sx, top, Math.max(view.sx, 2), high);
    g.strokeStyle = theme.cursor;
    g.lineWidth = 2;
    if (Math.min(view.sx, view.sy) >= 5) g.strokeRect(x + 1, y + 1, view.sx - 1, view.sy - 1);
    else {
      g.globalAlpha = 0.55;
      g.lineWidth = 1;
      g.strokeRect(left, y - 0.5, wide, view.sy + 1);
      g.strokeRect(x - 0.5, top, view.sx + 1, high);
      g.globalAlpha = 1;
    }
  }
}

/**
 * Weights as dots of their shades; what is masked stays clear.
 * @param {HTMLCanvasElement} canvas @param {Cells} values @param {number} rows @param {number} columns @param {Scale} scale @param {Theme} theme
 */
export function paint(canvas, values, rows, columns, scale, theme) {
  canvas.width = columns;
  canvas.height = rows;
  const g = contextOf(canvas),
    image = g.createImageData(columns, rows),
    table = rampOf(theme, scale),
    // Four bytes at once: the order is that of the machine, as in the table.
    colors = new Uint32Array(256),
    bytes = new Uint8Array(colors.buffer),
    dots = new Uint32Array(image.data.buffer);
  for (let i = 0; i < 256; i++) bytes.set([table[3 * i], table[3 * i + 1], table[3 * i + 2], 255], 4 * i);
  for (let i = 0; i < values.length; i++)
    if (values[i] !== MASKED) dots[i] = colors[Math.round(scale.level(values[i]) * 255)];
  g.putImageData(image, 0, 0);
}

/** The largest of some weights, or of differences in size, 0 for none. @param {Cells} values @param {boolean} signed */
export function highest(values, signed = false) {
  let high = 0;
  for (let i = 0; i < values.length; i++) {
    const size = signed && values[i] !== MASKED ? Math.abs(2 * values[i] - 1) : values[i];
    if (size > high) high = size;
  }
  return high;
}

/** @param {number} w @param {boolean} signed */
function cellText(w, signed) {
  const text = w === 0 || Math.abs(w) >= 0.0005 ? w.toFixed(signed ? 2 : 3) : w.toExponential(0);
  return signed && w > 0 ? `+${text}` : text;
}
