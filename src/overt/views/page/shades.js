// Colours: of the page in the light and in the dark, and of weights.

export const LIGHT_THEME = {
  ink: "#1c2030",
  masked: "#e6e4dd",
  hatch: "#bdb9ad",
  gap: "rgba(255,255,255,0.65)",
  inkOnFull: "#ffffff",
  inkOnEmpty: "#14202e",
  cursor: "#c2410c",
  band: "rgba(194,65,12,0.16)",
  bar: "#7c8aa5",
};
export const DARK_THEME = {
  ink: "#d9deea",
  masked: "#0a0c11",
  hatch: "#2c3242",
  gap: "rgba(0,0,0,0.45)",
  inkOnFull: "#0a0f18",
  inkOnEmpty: "#c9d6e8",
  cursor: "#fb923c",
  band: "rgba(251,146,60,0.22)",
  bar: "#6b7a99",
};

export const DARK = [
  [17, 20, 28],
  [25, 38, 70],
  [36, 68, 124],
  [58, 110, 176],
  [104, 160, 206],
  [170, 210, 230],
  [245, 251, 253],
];

export function ramp(stops) {
  const table = new Uint8Array(256 * 3);
  for (let i = 0; i < 256; i++) {
    const place = (i / 255) * (stops.length - 1),
      low = Math.min(Math.floor(place), stops.length - 2);
    for (let c = 0; c < 3; c++)
      table[3 * i + c] = Math.round(stops[low][c] * (1 - place + low) + stops[low + 1][c] * (place - low));
  }
  return table;
}

// How weights become shades: linear, or logarithmic where they span decades.
export class Scale {
  constructor(values, wish) {
    let low = Infinity,
      high = 0;
    for (const w of values)
      if (w > 0) {
        if (w < low) low = w;
        if (w > high) high = w;
      }
    // Some thousand weights know the median well enough.
    const stride = Math.max(1, Math.floor(values.length / 4096));
    const some = Float64Array.from({ length: Math.floor(values.length / stride) }, (_, i) => values[i * stride])
      .filter((w) => w > 0)
      .sort();
    this.high = high || 1;
    this.log = wish === "log" || (wish === "auto" && some.length > 0 && some[some.length >> 1] * 100 < high);
    this.low = Math.max(Math.min(low, this.high), this.high * 1e-4);
    if (this.low === this.high) this.log = false;
  }

  level(w) {
    if (!(w > 0)) return 0;
    const x = this.log ? Math.max(0.02, Math.log(w / this.low) / Math.log(this.high / this.low)) : w / this.high;
    return Math.min(1, x);
  }
}
