// Around the matrix: titles, names, and in the margins what each key received and how spread each query looked.

/** @import { Matrix } from "./matrix.js" */
/** @import { Box, Theme } from "./types.js" */
/** @import { Units } from "./words.js" */

import { counted, legible } from "./dom.js";

/** @param {Matrix} matrix @param {Box} box @param {Theme} theme */
export function axes(matrix, box, theme) {
  const { context: g, view, app, look } = matrix,
    { left, top, width, height } = matrix.inside,
    strip = 26,
    { rows, columns } = look;
  /** @param {[string, string]} text @param {number} x @param {number} y @param {number} room @param {boolean} turned @param {boolean} strong */
  const label = ([place, name], x, y, room, turned, strong) => {
    g.save();
    g.translate(x, y);
    if (turned) g.rotate(-Math.PI / 2);
    g.font = `${strong ? "600 " : ""}12px system-ui, sans-serif`;
    g.fillStyle = strong ? theme.cursor : theme.ink;
    g.textAlign = turned ? "left" : "right";
    g.textBaseline = "middle";
    g.fillText(place + clipped(g, name, room - g.measureText(place).width, place ? "" : "…"), 0, 0);
    g.restore();
  };
  g.font = "12px system-ui, sans-serif";
  g.fillStyle = theme.soft;
  g.textAlign = "left";
  g.textBaseline = "alphabetic";
  g.fillText("queries ↓", 8, top - 24);
  g.fillText("keys →", 8, top - 8);
  // Every name where all have room, else every so many, and always the cursor's.
  const every = (/** @type {number} */ size) =>
    [1, 2, 5]
      .flatMap((x) => [1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6].map((y) => x * y))
      .sort((a, b) => a - b)
      .find((n) => n * size >= 14) ?? 1e7;
  const down = every(view.sy),
    across = every(view.sx);
  for (let r = Math.ceil(box.r0 / down) * down; r < box.r1; r += down) {
    const y = top + (r + 0.5 - view.y) * view.sy;
    if (y < top || y > top + height || Math.abs(r - app.query) * view.sy < 13) continue;
    label(placed(rows, r, down), left - 8, y, left - 14, false, app.selected.has(r));
  }
  for (let c = Math.ceil(box.c0 / across) * across; c < box.c1; c += across) {
    const x = left + (c + 0.5 - view.x) * view.sx;
    if (x < left || x > left + width || Math.abs(c - app.key) * view.sx < 13) continue;
    label(placed(columns, c, across), x, top - strip - 6, top - strip - 12, true, app.marked.has(c));
  }
  if (app.query >= rows.length || app.key >= columns.length) return;
  const y = top + (app.query + 0.5 - view.y) * view.sy,
    x = left + (app.key + 0.5 - view.x) * view.sx;
  if (y >= top && y <= top + height) label(placed(rows, app.query, down), left - 8, y, left - 14, false, true);
  if (x >= left && x <= left + width) label(placed(columns, app.key, across), x, top - strip - 6, top - strip - 12, true, true);
}

/**
 * Above the keys their share of what could look at them, to the largest; beside the queries their entropy, to its bound.
 * @param {Matrix} matrix @param {Box} box @param {Theme} theme
 */
export function margins(matrix, box, theme) {
  const { context: g, view, look } = matrix,
    { left, top, width, height } = matrix.inside,
    sums = look.sums();
  if (!sums) return;
  g.fillStyle = theme.bar;
  /**
   * @param {number} from @param {number} to units @param {number} start @param {number} size of a unit @param {number} length
   * @param {Float64Array} values @param {number} most @param {(p: number, long: number) => void} bar
   */
  const pixels = (from, to, start, size, length, values, most, bar) => {
    const per = new Float64Array(Math.ceil(length) + 1);
    for (let i = from; i < to; i++) {
      const low = Math.max(0, Math.round((i - start) * size)),
        high = Math.max(low + 1, Math.round((i + 1 - start) * size));
      for (let p = low; p < Math.min(high, per.length - 1); p++) per[p] = Math.max(per[p], values[i]);
    }
    for (let p = 0; p < per.length - 1; p++) if (per[p] > 0) bar(p, Math.max(1, (per[p] / most) * 22));
  };
  pixels(box.c0, box.c1, view.x, view.sx, width, sums.receivedShare, sums.mostReceived || 1, (p, long) =>
    g.fillRect(left + p, top - 3 - long, 1, long),
  );
  const right = left + Math.min(width, look.columns.length * view.sx) + 3;
  pixels(box.r0, box.r1, view.y, view.sy, height, sums.entropyShare, 1, (p, long) =>
    g.fillRect(right, top + p, long, 1),
  );
}

/**
 * A name; where most are left out, behind its position, for a token among thousands says nothing of where it stands.
 * @param {Units} units @param {number} i @param {number} every
 * @returns {[string, string]} position and name
 */
function placed(units, i, every) {
  const name = legible(units.name(i));
  return every < 10 || name === String(i) ? ["", name] : [`${counted(i)} `, name];
}

/**
 * As much of a name as fits, with an ellipsis; where hardly any does, something else.
 * @param {CanvasRenderingContext2D} g @param {string} name @param {number} room @param {string} none
 */
function clipped(g, name, room, none) {
  // A name may be ten thousand characters long; no room is that wide.
  const text = Array.from(name.slice(0, 80));
  if (text.length === name.length && g.measureText(name).width <= room) return name;
  while (text.length && g.measureText(`${text.join("")}…`).width > room) text.pop();
  return text.length > 1 ? `${text.join("")}…` : none;
}
