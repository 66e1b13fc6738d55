// What is looked at, in one place: every change goes through here, and into the address.

/**
 * @typedef {object} State
 * @property {number} part which attention
 * @property {number} row of the batch
 * @property {number} head
 * @property {"one" | "mean" | "max"} how one head, the mean or the largest of all
 * @property {boolean} words whole words rather than tokens
 * @property {"linear" | "largest" | "log"} wish the scale
 * @property {number} query the chosen cell's, a unit
 * @property {number} key
 * @property {number[]} selected queries
 * @property {number[]} marked keys
 * @property {string} left out: "", "first", "special" or keys with commas between
 * @property {"text" | "matrix" | "compare" | "steps"} tab
 * @property {"layer" | "entropy" | "first" | "previous" | "induction"} order of the heads
 * @property {number[]} second what the first is compared with: part, row, head; head −1 is the mean, −2 the largest
 * @property {boolean} apart side by side rather than the difference
 */

/** @type {State} */
export const BEGINNING = {
  part: 0,
  row: 0,
  head: 0,
  how: "one",
  words: false,
  wish: "linear",
  query: 0,
  key: 0,
  selected: [],
  marked: [],
  left: "",
  tab: "matrix",
  order: "layer",
  second: [],
  apart: true,
};
/** @type {Record<string, State[keyof State]>} */
const LIKE = { ...BEGINNING };
/** What an address may say where not anything will do. @type {Record<string, string[]>} */
const CHOICES = {
  how: ["one", "mean", "max"],
  wish: ["linear", "largest", "log"],
  tab: ["text", "matrix", "compare", "steps"],
  order: ["layer", "entropy", "first", "previous", "induction"],
};
/** Changes that the back button takes back; others move within one entry. @type {(keyof State)[]} */
const STEPS = ["part", "row", "head", "how", "left", "tab", "second"];

export class Store {
  /** @param {(before: State) => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** @type {State} */
    this.state = { ...BEGINNING };
    // The first state replaces the empty address; in a notebook's frame there is none to write.
    this.written = location.protocol.startsWith("about") ? null : "";
    this.push = false;
  }

  /** @param {Partial<State>} some */
  change(some) {
    const before = this.state;
    this.state = { ...before, ...some };
    this.push ||= STEPS.some((name) => String(before[name]) !== String(this.state[name]));
    this.changed(before);
  }

  /** Write the state into the address, as a new entry where the reader took a step. */
  write() {
    if (this.written === null) return;
    const text = Object.entries(this.state)
      .filter(([name, value]) => String(value) !== String(LIKE[name]) || name === "tab")
      .map(([name, value]) => `${name}=${encodeURIComponent(String(value))}`)
      .join("&");
    if (text === this.written) return;
    const first = this.written === "";
    this.written = text;
    history[this.push && !first ? "pushState" : "replaceState"](null, "", `#${text}`);
    this.push = false;
  }

  /** What an address says, as far as it makes sense. @returns {Partial<State> | null} */
  read() {
    const text = location.hash.slice(1);
    if (this.written === null || !text || text === this.written) return null;
    this.written = text;
    /** @type {Record<string, State[keyof State]>} */
    const found = {};
    for (const pair of text.split("&")) {
      const [name, coded = ""] = pair.split("=");
      if (!Object.hasOwn(BEGINNING, name)) continue;
      let value;
      try {
        value = decodeURIComponent(coded);
      } catch {
        continue;
      }
      const like = LIKE[name];
      if (Array.isArray(like)) found[name] = value === "" ? [] : value.split(",").map(Number);
      else if (typeof like === "number") found[name] = Number(value);
      else if (typeof like === "boolean") found[name] = value === "true";
      else if (!CHOICES[name] || CHOICES[name].includes(value)) found[name] = value;
      if ([found[name]].flat().some((x) => typeof x === "number" && !Number.isSafeInteger(x))) delete found[name];
    }
    return /** @type {Partial<State>} */ (found);
  }
}
