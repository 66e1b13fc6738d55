// What is in view as a picture, as a drawing, and as a table.

/** @import { App } from "./app.js" */
/** @import { Matrix } from "./matrix.js" */
/** @import { Units } from "./words.js" */

import { byId, contextOf, drawn } from "./dom.js";
import { leftText } from "./panels.js";
import { color, inkOn, rampOf } from "./shades.js";
import { MASKED } from "./weights.js";

// Cells of a drawing and of a table; more would open in nothing.
const DRAWN = 20_000,
  LISTED = 1_000_000;

/** Write the current view as a file. @param {App} app @param {"png" | "svg" | "csv"} kind */
export function exported(app, kind) {
  const matrix = app.tabName === "compare" ? app.compare.shown[0] : app.matrix;
  // Never drawn, or not since its size was another.
  if (kind !== "csv" && app.tabName === "text") app.tab("matrix");
  app.attempt(() => {
    matrix.draw();
    if (kind === "png") picture(app, matrix);
    else if (kind === "svg") saved(app, "svg", new Blob([drawing(app, matrix)], { type: "image/svg+xml" }));
    else {
      const text = table(app, matrix);
      if (text !== null) saved(app, "csv", new Blob([text], { type: "text/csv" }));
    }
  });
}

/** @param {App} app @param {string} kind @param {Blob | null} blob */
function saved(app, kind, blob) {
  if (!blob) return;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = `${(`${app.meta.title} ${app.nameOf(app.look)}`).replace(/[^\p{L}\p{N}]+/gu, "-").slice(0, 80)}.${kind}`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}

/** What a picture shows. @param {App} app @param {Matrix} matrix */
const said = (app, matrix) =>
  `${app.meta.title} · ${app.nameOf(matrix.look)} · ${matrix.scale ? `${matrix.scale.name}, ${matrix.scale.ticks[0].text} to ${matrix.scale.ticks.at(-1)?.text}` : ""}${leftText(app)}`;

/** @param {App} app @param {Matrix} matrix */
function picture(app, matrix) {
  const { canvas } = matrix,
    whole = document.createElement("canvas"),
    ratio = window.devicePixelRatio || 1,
    line = 26 * ratio;
  whole.width = canvas.width;
  whole.height = canvas.height + line;
  const g = contextOf(whole);
  g.fillStyle = getComputedStyle(document.body).backgroundColor;
  g.fillRect(0, 0, whole.width, whole.height);
  g.drawImage(canvas, 0, 0);
  g.font = `${12 * ratio}px system-ui, sans-serif`;
  g.fillStyle = app.theme.ink;
  g.fillText(said(app, matrix), 8 * ratio, canvas.height + 17 * ratio, whole.width - 16 * ratio);
  whole.toBlob((blob) => saved(app, "png", blob));
}

/** The cells in view as squares, or as one picture where they are many, with their names and their scale. @param {App} app @param {Matrix} matrix */
export function drawing(app, matrix) {
  const { r0, r1, c0, c1 } = matrix.window,
    { look, scale, dots, drawn: at } = matrix,
    { theme } = app;
  const svg = /** @type {SVGSVGElement} */ (byId("lines").cloneNode(false)),
    many = !matrix.exact || (r1 - r0) * (c1 - c0) > DRAWN,
    [R, C] = [r1 - r0, c1 - c0],
    cell = Math.max(many ? 640 / Math.max(R, C) : 14, Math.min(40, 640 / Math.max(R, C))),
    [left, top] = [130, 130];
  svg.removeAttribute("id");
  svg.removeAttribute("aria-hidden");
  const width = left + C * cell + 20,
    height = top + R * cell + 40;
  /** @param {string} tag @param {import("./dom.js").Attributes} attributes @param {...(string | Element)} children */
  const put = (tag, attributes, ...children) => svg.append(drawn(svg, tag, attributes, ...children));
  for (const [name, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height, "font-family": "sans-serif", "font-size": 11 }))
    svg.setAttribute(name, String(value));
  put("title", {}, said(app, matrix));
  put("rect", { width, height, fill: getComputedStyle(document.body).backgroundColor });
  if (!many && scale) {
    const w = look.cells(r0, r1, c0, c1),
      table = rampOf(theme, scale);
    for (let i = 0; i < w.length; i++) {
      const x = left + (i % C) * cell,
        y = top + Math.floor(i / C) * cell;
      if (w[i] === MASKED) {
        put("rect", { x, y, width: cell, height: cell, fill: theme.masked });
        put("path", { d: `M${x} ${y + cell}L${x + cell} ${y}`, stroke: theme.hatch });
        continue;
      }
      const level = scale.level(w[i]),
        weight = look.signed ? 2 * w[i] - 1 : w[i];
      put("rect", { x, y, width: cell, height: cell, fill: color(table, level) }, drawn(svg, "title", {}, `${look.rows.name(r0 + Math.floor(i / C))} → ${look.columns.name(c0 + (i % C))}: ${weight.toPrecision(4)}`));
      if (cell >= 36)
        put("text", { x: x + cell / 2, y: y + cell / 2 + 4, "text-anchor": "middle", fill: inkOn(table, level) }, weight.toFixed(3));
    }
  } else
    put("image", {
      href: dots.toDataURL(),
      x: left + (at.c0 - c0) * cell,
      y: top + (at.r0 - r0) * cell,
      width: (at.c1 - at.c0) * cell,
      height: (at.r1 - at.r0) * cell,
      preserveAspectRatio: "none",
      "image-rendering": "pixelated",
    });
  const every = Math.max(1, Math.ceil(13 / cell));
  /** @param {Units} units @param {number} from @param {number} to @param {(i: number, name: string) => void} text */
  const names = (units, from, to, text) => {
    for (let i = Math.ceil(from / every) * every; i < to; i += every) text(i, Array.from(units.name(i)).slice(0, 18).join(""));
  };
  names(look.rows, r0, r1, (i, name) =>
    put("text", { x: left - 6, y: top + (i - r0 + 0.5) * cell + 4, "text-anchor": "end", fill: theme.ink }, name),
  );
  names(look.columns, c0, c1, (i, name) => {
    const x = left + (i - c0 + 0.5) * cell + 4;
    put("text", { x, y: top - 6, transform: `rotate(-90 ${x} ${top - 6})`, fill: theme.ink }, name);
  });
  put("text", { x: 8, y: height - 14, fill: theme.ink }, said(app, matrix));
  return new XMLSerializer().serializeToString(svg);
}

/** The cells in view, one a line; null, and a word why, where they are too many. @param {App} app @param {Matrix} matrix */
export function table(app, matrix) {
  const { look } = matrix,
    box = app.tabName === "text" ? { r0: 0, r1: look.rows.length, c0: 0, c1: look.columns.length } : matrix.window,
    { r0, r1, c0, c1 } = box;
  if ((r1 - r0) * (c1 - c0) > LISTED) {
    app.say(`${((r1 - r0) * (c1 - c0)).toLocaleString("en")} cells are too many for a table: zoom in first`);
    return null;
  }
  const w = look.cells(r0, r1, c0, c1),
    lines = ["query,query_name,key,key_name,weight"];
  for (let r = r0, i = 0; r < r1; r++)
    for (let c = c0; c < c1; c++, i++)
      lines.push(
        [
          look.rows.start(r),
          quoted(look.rows.name(r)),
          look.columns.start(c),
          quoted(look.columns.name(c)),
          w[i] === MASKED ? "" : look.signed ? 2 * w[i] - 1 : w[i],
        ].join(","),
      );
  return `${lines.join("\r\n")}\r\n`;
}

/** A field; a spreadsheet takes what begins like a formula for one. @param {string} name */
function quoted(name) {
  const safe = /^[=+\-@\t\r]/.test(name) ? `'${name}` : name;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}
