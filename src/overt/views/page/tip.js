// The cell under the pointer.

/** @import { App } from "./app.js" */
/** @import { Matrix } from "./matrix.js" */

import { byId, element, shortened } from "./dom.js";
import { weightText } from "./look.js";
import { MASKED } from "./weights.js";

// Multiplications that finding the heaviest of a dot's cells may take.
const WORK = 2 ** 22;

export class Tip {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    this.host = byId("tip");
    /** @type {ReturnType<Matrix["hit"]> | null} */
    this.hovered = null;
  }

  hide() {
    this.hovered = null;
    this.host.hidden = true;
  }

  /** @param {Matrix} matrix @param {number} px @param {number} py a point of its canvas */
  show(matrix, px, py) {
    const hit = matrix.hit(px, py);
    this.hovered = hit;
    this.host.hidden = true;
    // Cells may come late, when the pointer is elsewhere.
    if (hit.row && hit.column) this.app.attempt(() => this.hovered === hit && this._write(matrix, hit, px, py));
  }

  /** @param {Matrix} matrix @param {ReturnType<Matrix["hit"]>} hit @param {number} px @param {number} py */
  _write(matrix, hit, px, py) {
    const { host } = this,
      { look } = matrix,
      bin = matrix.bin(px, py),
      many = (bin[1] - bin[0]) * (bin[3] - bin[2]);
    // Where a dot is many cells it is the heaviest that is seen.
    const { r, c } = many > 1 && many * look.cost < WORK ? matrix.heaviest(bin) : hit;
    let [w] = look.cells(r, r + 1, c, c + 1);
    if (look.signed && w !== MASKED) w = 2 * w - 1;
    host.replaceChildren(
      element("bdi", {}, shortened(look.rows.name(r), 30)),
      " → ",
      element("bdi", {}, shortened(look.columns.name(c), 30)),
      element("b", {}, `  ${weightText(look, w, c, 4)}`),
    );
    host.hidden = false;
    const area = matrix.canvas.getBoundingClientRect(),
      [x, y] = [area.left + px, area.top + py];
    host.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - host.offsetWidth - 4))}px`;
    host.style.top = `${y + 18 + host.offsetHeight > innerHeight ? y - host.offsetHeight - 10 : y + 18}px`;
  }
}
