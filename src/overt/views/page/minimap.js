// A strip of what every key received, with a brush: the keys that the matrix shows.

/** @import { App } from "./app.js" */

import { byId, contextOf } from "./dom.js";

// Pixels around an edge of the brush that take hold of it.
const EDGE = 6;

export class Minimap {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.canvas = byId("minimap");
    this.context = contextOf(this.canvas);
    this.heights = { key: "", per: new Float64Array(0) };
    /** What follows the pointer while it is down. @type {((at: number, down: boolean) => void) | null} */
    this.drag = null;
    const place = (/** @type {PointerEvent} */ event) => {
      const { left, width } = this.canvas.getBoundingClientRect();
      return ((event.clientX - left) / width) * app.columns.length;
    };
    this.canvas.addEventListener("pointerdown", (event) => {
      this.canvas.setPointerCapture(event.pointerId);
      this._grasp(place(event));
    });
    this.canvas.addEventListener("pointermove", (event) => this.drag?.(place(event), true));
    this.canvas.addEventListener("pointerup", (event) => {
      this.drag?.(place(event), false);
      this.drag = null;
    });
    this.canvas.addEventListener("pointercancel", () => (this.drag = null));
    this.canvas.addEventListener("keydown", (event) => this._key(event));
  }

  /** Move the brush, one of its edges, or begin a new one; a click alone goes to a key. @param {number} at */
  _grasp(at) {
    const { app } = this,
      [a, b] = this.brushed,
      edge = (EDGE / this.canvas.clientWidth) * app.columns.length,
      whole = b - a > app.columns.length - 0.5;
    let moved = false;
    const set = (/** @type {number} */ from, /** @type {number} */ to) => app.matrix.brush(Math.min(from, to), Math.max(from, to, Math.min(from, to) + 1), this._row((from + to) / 2));
    this.drag = (now, down) => {
      moved ||= Math.abs(now - at) > edge / 3;
      if (!moved) {
        if (!down) app.go(app.query, Math.floor(at), "key");
        return;
      }
      if (!whole && Math.abs(at - a) < edge) set(b, now);
      else if (!whole && Math.abs(at - b) < edge) set(a, now);
      else if (!whole && at > a && at < b) set(a + now - at, b + now - at);
      else set(at, now);
    };
  }

  /** The query that stands where a key stands. @param {number} column */
  _row(column) {
    const { rows, columns } = this.app;
    return Math.max(0, Math.min(rows.length - 1, column + rows.length - columns.length));
  }

  /** @param {KeyboardEvent} event */
  _key(event) {
    const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    const [a, b] = this.brushed,
      by = (step * (b - a)) / 4;
    this.app.matrix.brush(a + by, b + by, this._row((a + b) / 2 + by));
  }

  /** The first and past-the-last key that the matrix shows. */
  get brushed() {
    const { view, inside } = this.app.matrix,
      n = this.app.columns.length;
    return [view.x, Math.min(n, view.x + inside.width / view.sx)];
  }

  draw() {
    const { app, canvas, context: g } = this,
      sums = app.look.sums(),
      { width, height } = canvas.getBoundingClientRect();
    if (!width) return;
    const ratio = window.devicePixelRatio || 1,
      { theme } = app,
      n = app.columns.length;
    if (canvas.width !== Math.round(width * ratio)) canvas.width = Math.round(width * ratio);
    if (canvas.height !== Math.round(height * ratio)) canvas.height = Math.round(height * ratio);
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, width, height);
    if (sums) {
      const key = `${app.look.key} ${width} ${sums.mostReceived}`;
      if (this.heights.key !== key) {
        const per = new Float64Array(Math.ceil(width));
        sums.receivedShare.forEach((share, i) => {
          const to = Math.max(Math.floor((i * width) / n) + 1, Math.floor(((i + 1) * width) / n));
          for (let p = Math.floor((i * width) / n); p < to && p < per.length; p++) per[p] = Math.max(per[p], share);
        });
        this.heights = { key, per };
      }
      g.fillStyle = theme.bar;
      this.heights.per.forEach((share, p) => {
        const long = share > 0 ? Math.max(1, (share / (sums.mostReceived || 1)) * (height - 4)) : 0;
        g.fillRect(p, height - long, 1, long);
      });
    }
    const at = (/** @type {number} */ s) => (s / n) * width,
      [a, b] = this.brushed;
    if (b - a < n - 0.5) {
      g.fillStyle = theme.band;
      g.fillRect(at(a), 0, Math.max(2, at(b) - at(a)), height);
      g.strokeStyle = theme.cursor;
      g.strokeRect(at(a) + 0.5, 0.5, Math.max(2, at(b) - at(a)) - 1, height - 1);
    }
    g.fillStyle = theme.cursor;
    for (const { side, i } of app.finding.hits) if (side === "keys") g.fillRect(at(i + 0.5) - 1, 0, 2, 5);
    g.fillRect(at(app.key + 0.5) - 1, height - 6, 2, 6);
    byId("minimap-name").textContent = sums
      ? `received by each key, of what could look at it: 0 – ${Number(sums.mostReceived.toPrecision(3))}. Drag to see a part.`
      : "received by each key: being worked out";
    canvas.setAttribute("aria-valuetext", `keys ${Math.floor(a)} to ${Math.ceil(b) - 1} of ${n}`);
    canvas.setAttribute("aria-valuemax", String(n - 1));
    canvas.setAttribute("aria-valuenow", String(Math.floor(a)));
  }
}
