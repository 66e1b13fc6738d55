// What part of a matrix is seen, and how large: cells sx × sy pixels from the unit x, y on.

/** @import { Box, Shown } from "./types.js" */

const LARGEST_CELL = 88;

export class Viewport {
  /** @param {HTMLCanvasElement} canvas @param {() => Shown} look @param {() => void} moved */
  constructor(canvas, look, moved) {
    this.canvas = canvas;
    this.moved = moved;
    this._look = look;
    /** What was last zoomed around. @type {{px: number, py: number, ux: number, uy: number, x: number, y: number} | null} */
    this.anchor = null;
    this.view = { x: 0, y: 0, sx: 1, sy: 1 };
    this.whole = true;
  }

  get look() {
    return this._look();
  }

  /** Where the cells stand on the canvas. */
  get inside() {
    const { width, height } = this.canvas.getBoundingClientRect(),
      narrow = width < 520;
    const gutter = narrow ? 78 : 124,
      top = narrow ? 92 : 124,
      right = 40,
      bottom = 12;
    const room = Math.max(40, width - gutter - right);
    // What is narrower than the room stands in its middle.
    const left = gutter + Math.max(0, (room - this.look.columns.length * this.view.sx) / 2);
    return {
      left,
      top,
      width: room - (left - gutter),
      height: Math.max(40, height - top - bottom),
      room,
      beside: top + bottom,
    };
  }

  get fitting() {
    const { room: width, height } = this.inside,
      { rows, columns } = this.look;
    let sx = Math.min(LARGEST_CELL, width / columns.length),
      sy = Math.min(LARGEST_CELL, height / rows.length);
    // Cells stay square unless one side would vanish.
    if (Math.max(sx, sy) / Math.min(sx, sy) < 3) sx = sy = Math.min(sx, sy);
    return { sx, sy };
  }

  fit() {
    // A small matrix needs no tall canvas.
    this.canvas.style.height = "";
    const { height, beside } = this.inside,
      { sy } = this.fitting,
      needed = this.look.rows.length * sy;
    if (needed < height) this.canvas.style.height = `${Math.max(180, Math.ceil(needed + beside))}px`;
    this.view = { x: 0, y: 0, ...this.fitting };
    this._whole(true);
    this.moved();
  }

  /** Whether all of the matrix is seen, so that a finger may scroll the page past it. @param {boolean} whole */
  _whole(whole) {
    this.whole = whole;
    this.canvas.style.touchAction = whole ? "pan-y" : "none";
  }

  resized() {
    if (this.whole) this.fit();
    else this.settle();
  }

  /** Make cells `factor` times as large around a point of the canvas. @param {number} factor @param {number} [px] @param {number} [py] */
  zoom(factor, px, py) {
    const before = this.inside,
      view = this.view,
      fit = this.fitting;
    px ??= before.left + before.width / 2;
    py ??= before.top + before.height / 2;
    // A matrix that stands in the middle cannot follow the pointer: what was under it first is what is meant.
    const last = this.anchor,
      same = last && last.px === px && last.py === py && last.x === view.x && last.y === view.y,
      ux = same ? last.ux : view.x + (px - before.left) / view.sx,
      uy = same ? last.uy : view.y + (py - before.top) / view.sy;
    view.sx = Math.min(LARGEST_CELL, Math.max(fit.sx, view.sx * factor));
    view.sy = Math.min(LARGEST_CELL, Math.max(fit.sy, view.sy * factor));
    this._whole(view.sx === fit.sx && view.sy === fit.sy);
    // A matrix that stood in the middle may now fill the room.
    const { left, top } = this.inside;
    view.x = ux - (px - left) / view.sx;
    view.y = uy - (py - top) / view.sy;
    this.settle();
    this.anchor = { px, py, ux, uy, x: view.x, y: view.y };
  }

  /** @param {number} dx @param {number} dy */
  pan(dx, dy) {
    this.view.x -= dx / this.view.sx;
    this.view.y -= dy / this.view.sy;
    this.settle();
  }

  settle() {
    const { width, height } = this.inside,
      { rows, columns } = this.look,
      view = this.view;
    view.x = Math.max(0, Math.min(view.x, columns.length - width / view.sx));
    view.y = Math.max(0, Math.min(view.y, rows.length - height / view.sy));
    this.moved();
  }

  /** Show the columns from a to b, and as many rows around `row`. */
  /** @param {number} a @param {number} b @param {number} row */
  brush(a, b, row) {
    const { room, height } = this.inside,
      fit = this.fitting,
      view = this.view;
    view.sx = Math.min(LARGEST_CELL, Math.max(fit.sx, room / Math.max(b - a, 1e-9)));
    view.sy = Math.min(LARGEST_CELL, Math.max(fit.sy, fit.sx === fit.sy ? view.sx : view.sy));
    this._whole(view.sx === fit.sx && view.sy === fit.sy);
    view.x = (a + b) / 2 - room / view.sx / 2;
    view.y = row + 0.5 - height / view.sy / 2;
    this.settle();
  }

  /** Move so that a cell can be seen, and enlarge where cells are too small to be told apart. @param {number} r @param {number} c */
  reveal(r, c, enlarge = false) {
    const { width, height } = this.inside,
      view = this.view;
    if (enlarge) {
      if (view.sx < 16) view.sx = 24;
      if (view.sy < 16) view.sy = 24;
      this._whole(false);
    }
    const nx = width / view.sx,
      ny = height / view.sy,
      before = { ...view };
    if (c < view.x) view.x = c;
    else if (c + 1 > view.x + nx) view.x = c + 1 - nx;
    if (r < view.y) view.y = r;
    else if (r + 1 > view.y + ny) view.y = r + 1 - ny;
    if (enlarge) {
      view.x = c + 0.5 - nx / 2;
      view.y = r + 0.5 - ny / 2;
    }
    if (before.x !== view.x || before.y !== view.y || enlarge) this.settle();
  }

  /** The cell under a point; `row` and `column` say whether it lies in a row or column. @param {number} px @param {number} py */
  hit(px, py) {
    const { left, top } = this.inside,
      { rows, columns } = this.look;
    const c = Math.floor(this.view.x + (px - left) / this.view.sx),
      r = Math.floor(this.view.y + (py - top) / this.view.sy);
    return { r, c, row: py >= top && r >= 0 && r < rows.length, column: px >= left && c >= 0 && c < columns.length };
  }

  /** Units that are seen. @returns {Box} */
  get window() {
    const { width, height } = this.inside,
      { rows, columns } = this.look,
      view = this.view;
    return {
      r0: Math.max(0, Math.floor(view.y)),
      r1: Math.min(rows.length, Math.ceil(view.y + height / view.sy - 1e-9)),
      c0: Math.max(0, Math.floor(view.x)),
      c1: Math.min(columns.length, Math.ceil(view.x + width / view.sx - 1e-9)),
    };
  }
}
