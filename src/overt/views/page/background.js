// What nobody waits for: a pass over every head, those that are shown first.

/** @import { App } from "./app.js" */
/** @import { Attention } from "./cells.js" */
/** @import { Left, Scan } from "./types.js" */

/** A head that no pass has been over. @typedef {{part: Attention, b: number, h: number, left: Left}} Unknown */

export class Background {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** The pass that is under way. @type {(Unknown & {steps: Generator<null, Scan>}) | null} */
    this.scanning = null;
    /** The scale of the pictures that are drawn. @type {import("./shades.js").Scale | null} */
    this.scale = null;
  }

  /** Go on for some milliseconds; null when nothing is left to do. @param {number} slice @returns {Promise<true | null>} */
  async go(slice) {
    const { app } = this;
    if (!this.scanning) {
      const next = this._unknown();
      if (!next) return null;
      const { part, b, h, left } = next;
      await part.open();
      await part.prepare(b, h, left, () => part === app.part && app.redraw());
      this.scanning = { ...next, steps: part.scanning(b, h, left) };
    }
    const { part, b, h, left, steps } = this.scanning,
      { heads, look } = app,
      until = performance.now() + slice;
    let next = steps.next();
    while (!next.done && performance.now() < until) next = steps.next();
    if (!next.done) return true;
    part.scans.set(part.scanned(b, h, left), next.value);
    this.scanning = null;
    const shown = part === app.part && b === app.row && left === look.left && look.heads.includes(h);
    if (b === app.rowOf(part) && left === app.leftOf(part)) heads.draw(part, h, this.scale ?? heads.scale);
    if (shown && look.sums()) {
      this.scale = heads.scale;
      app.scheduler.frame("heads", () => heads.drawAll());
      app.refresh();
    }
    if (app.state.order !== "layer") app.scheduler.frame("order", () => heads.arrange());
    return true;
  }

  /** @returns {Unknown | null} */
  _unknown() {
    const { app } = this,
      { parts } = app;
    for (const look of [app.look, app.tabName === "compare" ? app.compare.other : null])
      for (const h of look?.heads ?? [])
        if (look && !look.part.scan(look.row, h, look.left)) return { part: look.part, b: look.row, h, left: look.left };
    const whole = (/** @type {Attention} */ part) => part.scan(app.rowOf(part), 0, app.leftOf(part));
    // A first picture of every attention before the last one's last head.
    for (const only of [true, false])
      for (const part of parts) {
        if (only && whole(part)) continue;
        for (let h = 0; h < (only ? 1 : part.H); h++) {
          const b = app.rowOf(part),
            left = app.leftOf(part);
          if (!part.scan(b, h, left)) return { part, b, h, left };
        }
      }
    for (const part of parts)
      for (let b = 0; b < part.B; b++) for (let h = 0; h < part.H; h++) if (!part.scan(b, h)) return { part, b, h, left: null };
    return null;
  }
}
