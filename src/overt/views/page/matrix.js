// The matrix on a canvas: from the whole, pooled, down to single exact cells with names.

import { MASKED, largest, pooled } from "./cells.js";
import { pointing } from "./pointers.js";
import { Remote } from "./remote.js";

// Multiplications done at once while somebody drags, and at most in pieces while somebody waits.
const AT_ONCE = 2 ** 25,
  IN_PIECES = 2 ** 33;
// Cells that are asked of Python one by one, and multiplications that it does for a picture of more.
const SENT = 2 ** 18,
  ON_REQUEST = 2 ** 36;
const LARGEST_CELL = 88;

export class Matrix {
  constructor(canvas, app) {
    this.canvas = canvas;
    this.app = app;
    this.context = canvas.getContext("2d");
    this.picture = document.createElement("canvas");
    this.view = { x: 0, y: 0, sx: 1, sy: 1 };
    this.cached = { key: "", values: null };
    this.job = null;
    this.exact = false;
    pointing(this);
  }

  get inside() {
    const { width, height } = this.canvas.getBoundingClientRect(),
      narrow = width < 520;
    const gutter = narrow ? 72 : 116,
      top = narrow ? 84 : 112,
      right = 30,
      bottom = 12;
    const room = Math.max(40, width - gutter - right);
    // What is narrower than the room stands in its middle.
    const left = gutter + Math.max(0, (room - this.app.columns.length * this.view.sx) / 2);
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
      { rows, columns } = this.app;
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
      needed = this.app.rows.length * sy;
    if (needed < height) this.canvas.style.height = `${Math.max(180, Math.ceil(needed + beside))}px`;
    this.view = { x: 0, y: 0, ...this.fitting };
    this._whole(true);
    this.app.redraw();
  }

  // Whether all of the matrix is seen, so that a finger may scroll the page past it.
  _whole(whole) {
    this.whole = whole;
    this.canvas.style.touchAction = whole ? "pan-y" : "none";
  }

  resized() {
    if (this.whole) this.fit();
    else this.settle();
  }

  // Make cells `factor` times as large around a point of the canvas.
  zoom(factor, px, py) {
    const before = this.inside,
      view = this.view,
      fit = this.fitting;
    px ??= before.left + before.width / 2;
    py ??= before.top + before.height / 2;
    const ux = view.x + (px - before.left) / view.sx,
      uy = view.y + (py - before.top) / view.sy;
    view.sx = Math.min(LARGEST_CELL, Math.max(fit.sx, view.sx * factor));
    view.sy = Math.min(LARGEST_CELL, Math.max(fit.sy, view.sy * factor));
    this._whole(view.sx === fit.sx && view.sy === fit.sy);
    // A matrix that stood in the middle may now fill the room.
    const { left, top } = this.inside;
    view.x = ux - (px - left) / view.sx;
    view.y = uy - (py - top) / view.sy;
    this.settle();
  }

  pan(dx, dy) {
    this.view.x -= dx / this.view.sx;
    this.view.y -= dy / this.view.sy;
    this.settle();
  }

  settle() {
    const { width, height } = this.inside,
      { rows, columns } = this.app,
      view = this.view;
    view.x = Math.max(0, Math.min(view.x, columns.length - width / view.sx));
    view.y = Math.max(0, Math.min(view.y, rows.length - height / view.sy));
    this.app.redraw();
  }

  // Move so that a cell can be seen, and enlarge where cells are too small to be told apart.
  reveal(r, c, enlarge) {
    const { width, height } = this.inside,
      view = this.view;
    if (enlarge) {
      if (view.sx < 16) view.sx = 24;
      if (view.sy < 16) view.sy = 24;
      this._whole(false);
    }
    const nx = width / view.sx,
      ny = height / view.sy;
    if (c < view.x) view.x = c;
    else if (c + 1 > view.x + nx) view.x = c + 1 - nx;
    if (r < view.y) view.y = r;
    else if (r + 1 > view.y + ny) view.y = r + 1 - ny;
    if (enlarge) {
      view.x = c + 0.5 - nx / 2;
      view.y = r + 0.5 - ny / 2;
    }
    this.settle();
  }

  // The cell under a point, null outside.
  hit(px, py) {
    const { left, top } = this.inside,
      { rows, columns } = this.app;
    const c = Math.floor(this.view.x + (px - left) / this.view.sx),
      r = Math.floor(this.view.y + (py - top) / this.view.sy);
    return { r, c, row: py >= top && r >= 0 && r < rows.length, column: px >= left && c >= 0 && c < columns.length };
  }

  // The cells that one dot of the picture under a point stands for.
  bin(px, py) {
    const { left, top } = this.inside,
      { r0, r1, c0, c1, R, C } = this.drawn;
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

  // The heaviest cell of a bin, the first of all that is masked.
  heaviest([r0, r1, c0, c1]) {
    if (r1 - r0 === 1 && c1 - c0 === 1) return { r: r0, c: c0 };
    const best = largest(this.app.cells(r0, r1, c0, c1), 1),
      at = best.length ? best[0][0] : 0;
    return { r: r0 + Math.floor(at / (c1 - c0)), c: c0 + (at % (c1 - c0)) };
  }

  get window() {
    const { width, height } = this.inside,
      { rows, columns } = this.app,
      view = this.view;
    return {
      r0: Math.max(0, Math.floor(view.y)),
      r1: Math.min(rows.length, Math.ceil(view.y + height / view.sy - 1e-9)),
      c0: Math.max(0, Math.floor(view.x)),
      c1: Math.min(columns.length, Math.ceil(view.x + width / view.sx - 1e-9)),
    };
  }

  // Weights of the window, pooled to what the screen can show; a generator, piece by piece.
  *weighing({ r0, r1, c0, c1 }, R, C) {
    const { rows, columns } = this.app,
      out = new Float32Array(R * C).fill(MASKED);
    const n = columns.end(c1 - 1) - columns.start(c0);
    const step = Math.max(1, Math.floor(2e6 / (n * Math.max(1, this.app.part.A) * this.app.heads.length)));
    for (let r = r0, end; r < r1; r = end) {
      // Tokens are work, however many make a word.
      const until = rows.start(r) + step;
      end = until < rows.end(r1 - 1) ? Math.max(r + 1, rows.of(until)) : r1;
      const w = this.app.cells(r, end, c0, c1);
      pooled(w, r, end, c0, c1, r1 - r0, c1 - c0, R, C, out, r0, c0);
      yield null;
    }
    return out;
  }

  // Shades of the window: at once, or coarse now and exact a little later, or coarse alone where there is too much.
  values() {
    const box = this.window,
      { width, height } = this.inside,
      { rows, columns, part, heads } = this.app;
    const R = Math.min(box.r1 - box.r0, Math.ceil(height)),
      C = Math.min(box.c1 - box.c0, Math.ceil(width));
    const key = [this.app.version, ...Object.values(box), R, C].join();
    if (this.cached.key === key) return { box, R, C, values: this.cached.values };
    const cells = (rows.end(box.r1 - 1) - rows.start(box.r0)) * (columns.end(box.c1 - 1) - columns.start(box.c0));
    const work = cells * (part.A + 8) * heads.length * (part.v ? 8 : 1);
    if (part instanceof Remote) {
      const coarse = this.app.coarse();
      if (cells <= SENT) this.app.cells(box.r0, box.r1, box.c0, box.c1);
      else {
        // Python can pool the cells of a head, but no words nor means; until that is here, the overview has to do.
        const able = !rows.starts && !columns.starts && this.app.how !== "mean" && work <= ON_REQUEST;
        const values = able ? part.picture(this.app, box, R, C, coarse !== null) : null;
        if (values) this.cached = { key, values };
        return { box, R, C, values, coarse };
      }
    } else if (work > AT_ONCE) {
      if (work > IN_PIECES) this.job = null;
      else if (this.job?.key !== key) this.job = { key, steps: this.weighing(box, R, C) };
      const coarse = this.app.coarse();
      if (coarse) return { box, R, C, values: null, coarse };
      if (work > 8 * AT_ONCE) return { box, R, C, values: null };
    }
    this.job = null;
    const steps = this.weighing(box, R, C);
    let next = steps.next();
    while (!next.done) next = steps.next();
    this.cached = { key, values: next.value };
    return { box, R, C, values: next.value };
  }

  // One slice of the exact picture; true while there is more to do.
  work() {
    if (!this.job) return false;
    const until = performance.now() + 12,
      { key, steps } = this.job;
    while (performance.now() < until) {
      const next = steps.next();
      if (!next.done) continue;
      this.cached = { key, values: next.value };
      this.job = null;
      this.app.redraw();
      return false;
    }
    return true;
  }

  draw() {
    const { canvas, context: g, view, app } = this,
      area = canvas.getBoundingClientRect();
    const ratio = window.devicePixelRatio || 1,
      theme = app.theme;
    // First of all, for the cells may have to be waited for.
    const { box, R, C, values, coarse } = this.values();
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
    g.save();
    g.beginPath();
    g.rect(left, top, width, height);
    g.clip();
    g.fillStyle = theme.masked;
    g.fillRect(left, top, Math.min(width, app.columns.length * view.sx), Math.min(height, app.rows.length * view.sy));
    if (shown) {
      const scale = app.scaleOf(shown),
        rows = values ? R : coarse.rows,
        columns = values ? C : coarse.columns;
      this._paint(shown, rows, columns, scale, theme);
      g.imageSmoothingEnabled = false;
      const at = values ? box : { r0: 0, r1: app.rows.length, c0: 0, c1: app.columns.length };
      this.drawn = { ...at, R: rows, C: columns };
      g.drawImage(
        this.picture,
        left + (at.c0 - view.x) * view.sx,
        top + (at.r0 - view.y) * view.sy,
        (at.c1 - at.c0) * view.sx,
        (at.r1 - at.r0) * view.sy,
      );
      if (this.exact) this._details(box, C, values, scale, theme);
      app.legend(
        scale,
        values
          ? this.exact
            ? "exact cells"
            : `largest of each ${Math.ceil((box.r1 - box.r0) / R)} × ${Math.ceil((box.c1 - box.c0) / C)} cells`
          : this.job
            ? "overview, in more detail in a moment"
            : "overview: zoom in for exact cells",
      );
    } else {
      this.drawn = { ...box, R: box.r1 - box.r0, C: box.c1 - box.c0 };
      const { progress } = app.part,
        now = typeof progress === "number" ? `overview ${Math.round(progress * 100)} % done` : "too many cells";
      app.legend(null, this.job ? "computing …" : `${now}: zoom in for exact cells`);
    }
    this._cursor(theme);
    g.restore();
    this._axes(box, theme);
    this._margins(box, theme);
  }

  _paint(values, rows, columns, scale, theme) {
    this.picture.width = columns;
    this.picture.height = rows;
    const g = this.picture.getContext("2d"),
      image = g.createImageData(columns, rows),
      { data } = image;
    for (let i = 0; i < values.length; i++) {
      if (values[i] === MASKED) continue;
      const at = 3 * Math.round(scale.level(values[i]) * 255);
      data[4 * i] = theme.ramp[at];
      data[4 * i + 1] = theme.ramp[at + 1];
      data[4 * i + 2] = theme.ramp[at + 2];
      data[4 * i + 3] = 255;
    }
    g.putImageData(image, 0, 0);
  }

  // Gaps between cells, hatched masks and numbers, where there is room.
  _details(box, C, values, scale, theme) {
    const { context: g, view } = this,
      { left, top } = this.inside,
      size = Math.min(view.sx, view.sy);
    if (size < 7) return;
    g.lineWidth = 1;
    for (let r = box.r0; r < box.r1; r++)
      for (let c = box.c0; c < box.c1; c++) {
        const x = left + (c - view.x) * view.sx,
          y = top + (r - view.y) * view.sy;
        const w = values[(r - box.r0) * C + c - box.c0];
        if (size > 11) {
          g.strokeStyle = theme.gap;
          g.strokeRect(x + 0.5, y + 0.5, view.sx, view.sy);
        }
        if (w === MASKED) {
          g.strokeStyle = theme.hatch;
          g.beginPath();
          g.moveTo(x + view.sx * 0.3, y + view.sy * 0.7);
          g.lineTo(x + view.sx * 0.7, y + view.sy * 0.3);
          g.stroke();
        } else if (view.sx >= 40 && view.sy >= 20) {
          g.fillStyle = scale.level(w) > 0.5 ? theme.inkOnFull : theme.inkOnEmpty;
          g.font = "12px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace";
          g.textAlign = "center";
          g.textBaseline = "middle";
          g.fillText(weightText(w), x + view.sx / 2, y + view.sy / 2);
        }
      }
  }

  _cursor(theme) {
    const { context: g, view, app } = this,
      { left, top, width, height } = this.inside;
    const y = top + (app.query - view.y) * view.sy,
      x = left + (app.key - view.x) * view.sx;
    const wide = Math.min(width, app.columns.length * view.sx),
      high = Math.min(height, app.rows.length * view.sy);
    g.fillStyle = theme.band;
    for (const r of app.selected) g.fillRect(left, top + (r - view.y) * view.sy, wide, Math.max(view.sy, 2));
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

  _axes(box, theme) {
    const { context: g, view, app } = this,
      { left, top, width, height } = this.inside,
      strip = 24;
    g.fillStyle = theme.ink;
    const label = (name, x, y, room, turned, strong) => {
      g.save();
      g.translate(x, y);
      if (turned) g.rotate(-Math.PI / 2);
      g.font = `${strong ? "600 " : ""}12px system-ui, sans-serif`;
      g.fillStyle = strong ? theme.cursor : theme.ink;
      g.textAlign = turned ? "left" : "right";
      g.textBaseline = "middle";
      g.fillText(clipped(g, name, room), 0, 0);
      g.restore();
    };
    // Every name where all have room, else every so many, and always the cursor's.
    const every = (size) =>
      [1, 2, 5]
        .flatMap((x) => [1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6].map((y) => x * y))
        .sort((a, b) => a - b)
        .find((n) => n * size >= 13);
    const down = every(view.sy),
      across = every(view.sx);
    for (let r = Math.ceil(box.r0 / down) * down; r < box.r1; r += down) {
      const y = top + (r + 0.5 - view.y) * view.sy;
      if (y < top || y > top + height || Math.abs(r - app.query) * view.sy < 13) continue;
      label(app.rows.name(r), left - 8, y, left - 14, false, app.selected.has(r));
    }
    for (let c = Math.ceil(box.c0 / across) * across; c < box.c1; c += across) {
      const x = left + (c + 0.5 - view.x) * view.sx;
      if (x < left || x > left + width || Math.abs(c - app.key) * view.sx < 13) continue;
      label(app.columns.name(c), x, top - strip - 6, top - strip - 12, true, false);
    }
    const y = top + (app.query + 0.5 - view.y) * view.sy,
      x = left + (app.key + 0.5 - view.x) * view.sx;
    if (y >= top && y <= top + height)
      label(app.rows.name(app.query), left - 8, y, left - 14, false, true);
    if (x >= left && x <= left + width)
      label(app.columns.name(app.key), x, top - strip - 6, top - strip - 12, true, true);
  }

  // Received attention above the keys, entropy beside the queries.
  _margins(box, theme) {
    const { context: g, view, app } = this,
      { left, top, width, height } = this.inside,
      sums = app.sums();
    if (!sums) return;
    g.fillStyle = theme.bar;
    const pixels = (units, from, start, size, length, values, highest, bar) => {
      const per = new Float64Array(Math.ceil(length) + 1);
      for (let i = from[0]; i < from[1]; i++) {
        const low = Math.max(0, Math.round((i - start) * size)),
          high = Math.max(low + 1, Math.round((i + 1 - start) * size));
        for (let p = low; p < Math.min(high, per.length - 1); p++) per[p] = Math.max(per[p], values[i]);
      }
      for (let p = 0; p < per.length - 1; p++) if (per[p] > 0) bar(p, Math.max(1, (per[p] / highest) * 20));
    };
    pixels(app.columns, [box.c0, box.c1], view.x, view.sx, width, sums.received, sums.mostReceived, (p, long) =>
      g.fillRect(left + p, top - 3 - long, 1, long),
    );
    pixels(app.rows, [box.r0, box.r1], view.y, view.sy, height, sums.entropy, sums.mostEntropy, (p, long) =>
      g.fillRect(left + Math.min(width, app.columns.length * view.sx) + 3, top + p, long, 1),
    );
  }
}

function weightText(w) {
  if (w === MASKED) return "masked";
  if (w === 0 || w >= 0.0005) return w.toFixed(3);
  return w.toExponential(0);
}

// As much of a name as fits, with an ellipsis.
function clipped(g, name, room) {
  // A name may be ten thousand characters long; no room is that wide.
  let text = Array.from(name.slice(0, 80));
  if (text.length === name.length && g.measureText(name).width <= room) return name;
  while (text.length > 1 && g.measureText(text.join("") + "…").width > room) text.pop();
  return text.join("") + (text.join("").length < name.length ? "…" : "");
}
