// Search in the tokens, and going to a position or to a head.

/** @import { App } from "./app.js" */
/** @import { Side } from "./types.js" */
/** @import { Units } from "./words.js" */

import { byId } from "./dom.js";

// More hits are nobody's to look through.
const MOST = 10_000;

export class Finding {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {{side: Side, i: number}[]} */
    this.hits = [];
    this.at = -1;
    const search = byId("search"),
      goto = byId("goto");
    search.addEventListener("input", () => this.search(search.value));
    search.addEventListener("keydown", (event) => {
      if (event.key === "Enter") this.next(event.shiftKey ? -1 : 1);
      else if (event.key === "Escape") {
        search.value = "";
        this.search("");
        search.blur();
      }
    });
    goto.addEventListener("keydown", (event) => {
      if (event.key === "Escape") goto.blur();
      if (event.key !== "Enter") return;
      const wrong = this.goTo(goto.value);
      goto.setAttribute("aria-invalid", String(wrong !== null));
      byId("status").textContent = wrong ?? "";
      byId("goto-wrong").textContent = wrong ?? "";
      if (wrong === null) goto.blur();
    });
  }

  /** Find tokens that hold a text, or where it runs over several. @param {string} text */
  search(text) {
    const { app } = this,
      { part, rows, columns } = app;
    this.hits = [];
    this.at = -1;
    if (text !== "") {
      /** @type {[Side, Units][]} */
      const both = [["keys", columns], ["queries", rows]];
      for (const [side, units] of both) {
        if (side === "queries" && part.queries === part.keys) continue;
        if (side === "queries" && part.meta.name !== "cross" && this.hits.length) continue;
        for (const i of found(units, text.toLowerCase())) if (this.hits.length < MOST) this.hits.push({ side, i });
      }
    }
    this._say(text);
    if (this.hits.length) this.next(1);
    else app.redraw();
  }

  /** @param {number} step */
  next(step) {
    const { app, hits } = this;
    if (!hits.length) return;
    this.at = this.at < 0 ? 0 : (this.at + step + hits.length) % hits.length;
    const { side, i } = hits[this.at];
    if (side === "keys") app.go(app.query, i, "key");
    else app.go(i, app.key, "query");
    this._say(byId("search").value);
  }

  /** @param {string} text */
  _say(text) {
    byId("hits").textContent =
      text === "" ? "" : this.hits.length ? `${this.at + 1} of ${this.hits.length}${this.hits.length === MOST ? "+" : ""}` : "none";
  }

  /**
   * Go to "7" (a key), "12, 7" (a query and a key), "q12", "k7", "L3", "H5" or "L3H5"; what is wrong, or null.
   * @param {string} text
   * @returns {string | null}
   */
  goTo(text) {
    const { app } = this,
      head = text.match(/^\s*(?:l(?:ayer)?\s*(\d+))?[\s.,]*(?:h(?:ead)?\s*(\d+))?\s*$/i);
    if (head && (head[1] || head[2])) {
      const layer = head[1] === undefined ? app.part.meta.layer : Number(head[1]),
        part = app.parts.find(({ meta }) => meta.layer === layer && meta.name === app.part.meta.name);
      if (!part) return `there is no layer ${layer} of ${app.part.meta.name}`;
      const h = head[2] === undefined ? Math.min(app.head, part.H - 1) : Number(head[2]);
      if (h >= part.H) return `layer ${layer} has heads 0 to ${part.H - 1}`;
      app.pick(part.index, h);
      return null;
    }
    const place = text.match(/^\s*(?:q(?:uery)?\s*)?(\d+)\s*[,;\s→]\s*(?:k(?:ey)?\s*)?(\d+)\s*$/i),
      query = text.match(/^\s*q(?:uery)?\s*(\d+)\s*$/i),
      key = text.match(/^\s*(?:k(?:ey)?\s*)?(\d+)\s*$/i);
    if (!place && !query && !key) return "give a key, “query, key”, or L3H5";
    const t = place ? Number(place[1]) : query ? Number(query[1]) : null,
      s = place ? Number(place[2]) : key ? Number(key[1]) : null;
    if (t !== null && t >= app.part.T) return `queries go from 0 to ${app.part.T - 1}`;
    if (s !== null && s >= app.part.S) return `keys go from 0 to ${app.part.S - 1}`;
    app.go(t === null ? app.query : app.rows.of(t), s === null ? app.key : app.columns.of(s), t === null ? "key" : "query");
    return null;
  }
}

/** Units whose name holds a text; where none does, those where it begins that runs over several. @param {Units} units @param {string} text */
function found(units, text) {
  /** @type {number[]} */
  const hits = [],
    bare = (/** @type {number} */ i) => units.name(i).replace(/^[▁Ġ]/, " ").replace(/^##/, "").toLowerCase();
  const names = Array.from({ length: units.length }, (_, i) => bare(i));
  names.forEach((name, i) => (name.includes(text) || units.name(i).toLowerCase() === text) && hits.push(i));
  if (hits.length) return hits;
  const spaced = names.some((name) => name.startsWith(" ")),
    starts = [];
  let whole = "";
  for (const name of names) {
    starts.push(whole.length);
    whole += spaced ? name : `${name} `;
  }
  let unit = 0;
  for (let at = whole.indexOf(text); at >= 0 && hits.length < MOST; at = whole.indexOf(text, at + 1)) {
    while (unit + 1 < starts.length && starts[unit + 1] <= at) unit++;
    hits.push(unit);
  }
  return hits;
}
