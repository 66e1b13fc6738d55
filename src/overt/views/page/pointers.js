// Mouse, pen and fingers on the matrix: drag to move, wheel or pinch to zoom, click, Shift and click, double click.

/** @import { Matrix } from "./matrix.js" */

/** @param {Matrix} matrix */
export function pointing(matrix) {
  const { canvas, app } = matrix,
    /** Where each finger is. @type {Map<number, [number, number]>} */
    pointers = new Map();
  /** @param {MouseEvent} event @returns {[number, number]} */
  const place = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  let moved = 0;
  canvas.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      matrix.zoom(Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002)), ...place(event));
    },
    { passive: false },
  );
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, place(event));
    if (pointers.size === 1) moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = place(event),
      before = pointers.get(event.pointerId);
    if (!before) {
      app.tip.show(matrix, ...now);
      return;
    }
    const others = [...pointers].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const [, other] = others[0],
        distance = (/** @type {[number, number]} */ [x, y]) => Math.hypot(x - other[0], y - other[1]);
      matrix.zoom(distance(now) / Math.max(1, distance(before)), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      moved = Infinity;
    } else {
      moved += Math.hypot(now[0] - before[0], now[1] - before[1]);
      if (moved > 4) {
        matrix.pan(now[0] - before[0], now[1] - before[1]);
        app.tip.hide();
      }
    }
    pointers.set(event.pointerId, now);
  });
  const up = (/** @type {PointerEvent} */ event) => {
    const known = pointers.delete(event.pointerId);
    if (event.type !== "pointerup" || !known || moved > 4) return;
    const { r, c, row, column } = matrix.hit(...place(event));
    const more = event.shiftKey || event.ctrlKey || event.metaKey;
    if (row && more) app.toggle(r);
    else if (column && more) app.mark(c);
    else if (row && column) {
      // A dot of the picture may stand for many cells: the reader means the one that made it dark.
      const bin = matrix.bin(...place(event));
      app.attempt(() => {
        const best = matrix.heaviest(bin);
        app.go(best.r, best.c, "query");
      });
    } else if (row || column) app.go(row ? r : app.query, column ? c : app.key, row ? "query" : "key");
  };
  canvas.addEventListener("pointerup", up);
  canvas.addEventListener("pointercancel", up);
  canvas.addEventListener("pointerleave", () => app.tip.hide());
  canvas.addEventListener("dblclick", (event) => {
    const { row, column } = matrix.hit(...place(event));
    // The first of the two clicks has chosen the cell.
    if (row && column) matrix.reveal(app.query, app.key, true);
  });
}
