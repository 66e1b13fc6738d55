// Colours: of the page in the light and in the dark, of weights and of differences, and what a shade stands for.

/** @import { Cells, Theme } from "./types.js" */

import { contextOf } from "./dom.js";

const LIGHT_THEME = {
  ink: "#1c2030",
  soft: "#5b6275",
  masked: "#e9e7e1",
  hatch: "#cbc7bb",
  gap: "rgba(255,255,255,0.65)",
  cursor: "#c2410c",
  band: "rgba(194,65,12,0.16)",
  bar: "#7c8aa5",
  line: "#2a3c7d",
};
const DARK_THEME = {
  ink: "#d9deea",
  soft: "#98a1b6",
  masked: "#05060a",
  hatch: "#4a5268",
  gap: "rgba(0,0,0,0.45)",
  cursor: "#fb923c",
  band: "rgba(251,146,60,0.22)",
  bar: "#6b7a99",
  line: "#aad2e6",
};
const DARK = [
  [17, 20, 28],
  [25, 38, 70],
  [36, 68, 124],
  [58, 110, 176],
  [104, 160, 206],
  [170, 210, 230],
  [245, 251, 253],
];
// From what only the first has, by nothing, to what only the second has.
const SIGNED = {
  light: [
    [140, 45, 4],
    [217, 120, 50],
    [247, 205, 165],
    [250, 250, 247],
    [172, 200, 226],
    [70, 130, 190],
    [20, 60, 130],
  ],
  dark: [
    [255, 180, 120],
    [205, 110, 45],
    [105, 55, 25],
    [17, 20, 28],
    [30, 62, 115],
    [70, 135, 205],
    [190, 225, 250],
  ],
};

/** 256 colours between stops, three bytes each. @param {number[][]} stops */
function ramp(stops) {
  const table = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (stops.length - 1),
      low = Math.min(Math.floor(place), stops.length - 2);
    for (let c = 0; c < 3; c++)
      table[3 * i + c] = Math.round(stops[low][c] * (1 - place + low) + stops[low + 1][c] * (place - low));
  }
  return table;
}

/** The two themes of a page. @param {number[][]} stops the light ramp @returns {{light: Theme, dark: Theme}} */
export function themes(stops) {
  return {
    light: { ...LIGHT_THEME, ramp: ramp(stops), signed: ramp(SIGNED.light) },
    dark: { ...DARK_THEME, ramp: ramp(DARK), signed: ramp(SIGNED.dark) },
  };
}

/** The ramp that a scale is read on. @param {Theme} theme @param {Scale} scale */
export const rampOf = (theme, scale) => (scale.signed ? theme.signed : theme.ramp);

/** A colour of a ramp as CSS writes it. @param {Uint8Array} table @param {number} level */
export function color(table, level) {
  const at = 3 * Math.round(level * 255);
  return `rgb(${table[at]}, ${table[at + 1]}, ${table[at + 2]})`;
}

/** Black or white, whichever stands out more: at least 4.5 to 1 on any colour.  WCAG 2.2, 1.4.3. @param {Uint8Array} table @param {number} level */
export function inkOn(table, level) {
  const at = 3 * Math.round(level * 255);
  const light = [0.2126, 0.7152, 0.0722].reduce((sum, part, i) => {
    const c = table[at + i] / 255;
    return sum + part * (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  }, 0);
  return 1.05 / (light + 0.05) > (light + 0.05) / 0.05 ? "#ffffff" : "#000000";
}

/** The diagonal lines of what is masked, the same at any zoom. @param {CanvasRenderingContext2D} context @param {Theme} theme */
export function hatching(context, theme) {
  const size = 6,
    tile = document.createElement("canvas");
  tile.width = tile.height = size;
  const g = contextOf(tile);
  g.fillStyle = theme.masked;
  g.fillRect(0, 0, size, size);
  g.strokeStyle = theme.hatch;
  g.lineWidth = 1;
  g.beginPath();
  for (const at of [-size, 0, size]) {
    g.moveTo(at - 1, size + 1);
    g.lineTo(at + size + 1, -1);
  }
  g.stroke();
  return context.createPattern(tile, "repeat") ?? theme.masked;
}

/**
 * How weights become shades.
 *
 * "linear": 0 to 1; where nothing that is seen would show on that, 0 to the next round number above it, and `faint`.
 * "largest": 0 to the largest.  "log": decades, from well below an even share to 1.  Differences go as far to both sides,
 * and have no decades.
 */
export class Scale {
  /**
   * @param {string} wish
   * @param {number} length keys that an even share is of
   * @param {number} largest the largest weight that is seen
   * @param {boolean} signed whether they are differences
   */
  constructor(wish, length, largest, signed = false) {
    this.log = wish === "log" && !signed;
    this.signed = signed;
    this.low = this.log ? 10 ** -(Math.ceil(Math.log10(Math.max(length, 2))) + 2) : 0;
    this.high = 1;
    this.faint = false;
    if (wish === "largest" && largest > 0) this.high = largest;
    else if (!this.log && largest > 0 && largest < 0.04) {
      const decade = 10 ** Math.floor(Math.log10(largest));
      this.high = decade * ([1, 2, 5].find((x) => x * decade >= largest) ?? 10);
      this.faint = true;
    }
    this.decades = Math.log(this.high / this.low);
    this.key = `${wish} ${signed} ${this.low} ${this.high}`;
  }

  /** Where a weight stands, 0 to 1. @param {number} w */
  level(w) {
    if (this.signed) return Math.max(0, Math.min(1, 0.5 + (w - 0.5) / this.high));
    if (!(w > 0)) return 0;
    // The faintest weight there is differs from none.
    return Math.min(1, this.log ? Math.max(0.03, Math.log(w / this.low) / this.decades) : w / this.high);
  }

  /** Numbers to write below the ramp, and where. @returns {{at: number, text: string}[]} */
  get ticks() {
    if (!this.log)
      return [0, 0.25, 0.5, 0.75, 1].map((at) => {
        const share = this.signed ? 2 * at - 1 : at;
        return { at, text: String(Number((share * this.high).toPrecision(3))).replace("-", "−") };
      });
    const decades = Math.round(-Math.log10(this.low));
    return Array.from({ length: decades + 1 }, (_, i) => ({
      at: i / decades,
      text: i === decades ? "1" : `10${superscript(i - decades)}`,
    }));
  }

  get name() {
    if (this.signed) return "difference of weights";
    return `weight, ${this.log ? "logarithmic" : "linear"}`;
  }
}

/** Whether so many weights are so far below the scale's end that they look like none. @param {Cells} values @param {Scale} scale */
export function lost(values, scale) {
  if (scale.log || scale.signed || scale.high < 1) return false;
  let some = 0,
    faint = 0;
  const stride = Math.max(1, Math.floor(values.length / 8192));
  for (let i = 0; i < values.length; i += stride) {
    if (!(values[i] > 0)) continue;
    some++;
    if (values[i] < 0.04) faint++;
  }
  return faint > 0.9 * some;
}

const superscript = (/** @type {number} */ n) => Array.from(String(n), (c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[Number(c)] ?? "⁻").join("");
