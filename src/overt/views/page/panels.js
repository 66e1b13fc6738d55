// Panels, buttons and lists that say what the state says.

/** @import { App } from "./app.js" */
/** @import { Shown } from "./types.js" */

import { byId, counted, element, shortened } from "./dom.js";
import { weightText } from "./look.js";
import { MASKED } from "./weights.js";
import { special } from "./words.js";

export const TABS = /** @type {const} */ (["text", "matrix", "compare", "steps"]);

/** Follow a change of the state. @param {App} app */
export function follow(app) {
  const { part, parts, state } = app,
    alone = parts.length === 1 && part.H === 1 && part.B === 1;
  byId("steps-tab").hidden = !part.meta.steps;
  byId("compare-tab").hidden = alone;
  if (byId(`${state.tab}-tab`).hidden) state.tab = app.few ? "text" : "matrix";
  for (const tab of TABS) {
    byId(`${tab}-panel`).hidden = tab !== state.tab;
    byId(`${tab}-tab`).setAttribute("aria-selected", String(tab === state.tab));
    byId(`${tab}-tab`).tabIndex = tab === state.tab ? 0 : -1;
  }
  document.body.dataset.tab = state.tab;
  byId("zooming").hidden = state.tab === "text";
  byId("tools").hidden = state.tab === "steps";
  byId("words-label").hidden = !(app.rows.marks || app.columns.marks);
  byId("words").checked = state.words;
  byId("how-label").hidden = part.H < 2;
  byId("row-label").hidden = part.B < 2;
  if (byId("row").options.length !== part.B)
    byId("row").replaceChildren(...Array.from({ length: part.B }, (_, b) => element("option", { value: b }, String(b))));
  byId("left").options[2].disabled = !part.keys?.some(special);
  byId("how").value = state.how;
  byId("row").value = String(state.row);
  byId("scale").value = state.wish;
  byId("order").value = state.order;
  byId("left").value = ["", "first", "special"].includes(state.left) ? state.left : "marked";
  byId("left-note").hidden = !app.look.left;
  byId("left-note").textContent = leftText(app).replace(/^ · l/, "L");
}

/** What is left out, and that the rest is divided by what remains. @param {App} app */
export function leftText(app) {
  const { left, part } = app.look;
  if (!left) return "";
  const names = left.keys.slice(0, 3).map((s) => `“${shortened(part.key(s), 20)}”`),
    more = left.keys.length - names.length;
  return ` · left out: ${names.join(", ")}${more > 0 ? ` and ${counted(more)} more` : ""}; every query's other weights are renormalised to 1`;
}

/** What is shown, above it. @param {App} app */
export function describe(app) {
  const { part } = app;
  byId("where").textContent =
    `${app.nameOf(app.look)} · ${counted(part.T)} queries × ${counted(part.S)} keys` +
    `${part.meta.rounded ? ` · q and k kept in ${part.meta.q.dtype}, cells exact for these` : ""}`;
}

/** The chosen cell, for those who hear the page. @param {App} app */
export function tell(app) {
  const { query, key, rows, columns, look } = app,
    [w] = app.cells(query, query + 1, key, key + 1);
  byId("status").textContent =
    `query ${shortened(rows.name(query))}, key ${shortened(columns.name(key))}: ${weightText(look, w, key, 4)}`;
}

/** The chosen cell in both of two that are compared. @param {App} app */
export function compared(app) {
  const { query, key, compare } = app,
    { other } = compare;
  if (!other) return;
  const weight = (/** @type {Shown} */ look) =>
    query < look.rows.length && key < look.columns.length ? look.cells(query, query + 1, key, key + 1)[0] : MASKED;
  const [a, b] = [weight(app.look), weight(other)],
    text = (/** @type {number} */ w) => (w === MASKED ? "masked" : w.toPrecision(5)),
    difference = Math.max(b, 0) - Math.max(a, 0);
  byId("compared").replaceChildren(
    ...[
      [app.nameOf(app.look), text(a)],
      [app.nameOf(other), text(b)],
      ["difference", `${difference > 0 ? "+" : ""}${difference.toPrecision(5)}`],
    ].flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
  );
}
