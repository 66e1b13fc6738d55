// The cells around the chosen one as a table, for those who hear the page.

/** @import { App } from "./app.js" */

import { byId, element, shortened } from "./dom.js";
import { weightText } from "./look.js";

// Rows and columns to either side.
const AROUND = 3;

/** Write the table. @param {App} app */
export function tabulate(app) {
  const { look, query, key } = app,
    host = byId("grid"),
    range = (/** @type {number} */ at, /** @type {number} */ length) => [Math.max(0, at - AROUND), Math.min(length, at + AROUND + 1)],
    [r0, r1] = range(query, look.rows.length),
    [c0, c1] = range(key, look.columns.length),
    w = look.cells(r0, r1, c0, c1);
  host.setAttribute("aria-rowcount", String(look.rows.length + 1));
  host.setAttribute("aria-colcount", String(look.columns.length + 1));
  const text = (/** @type {number} */ w, /** @type {number} */ c) => weightText(look, w, c, 3);
  const head = element(
    "div",
    { role: "row", "aria-rowindex": 1 },
    element("span", { role: "columnheader", "aria-colindex": 1 }, "query"),
    ...Array.from({ length: c1 - c0 }, (_, i) =>
      element("span", { role: "columnheader", "aria-colindex": c0 + i + 2 }, shortened(look.columns.name(c0 + i))),
    ),
  );
  const rows = Array.from({ length: r1 - r0 }, (_, j) =>
    element(
      "div",
      { role: "row", "aria-rowindex": r0 + j + 2, "aria-selected": app.selected.has(r0 + j) ? "true" : null },
      element("span", { role: "rowheader", "aria-colindex": 1 }, shortened(look.rows.name(r0 + j))),
      ...Array.from({ length: c1 - c0 }, (_, i) => {
        const here = r0 + j === query && c0 + i === key;
        return element(
          "span",
          {
            role: "gridcell",
            id: here ? "here" : null,
            "aria-colindex": c0 + i + 2,
            "aria-selected": String(here),
            "aria-label": here
              ? `query ${shortened(look.rows.name(query))}, key ${shortened(look.columns.name(key))}: ${text(w[j * (c1 - c0) + i], c0 + i)}`
              : null,
          },
          text(w[j * (c1 - c0) + i], c0 + i),
        );
      }),
    ),
  );
  byId("table").replaceChildren(head, ...rows);
  host.setAttribute("aria-activedescendant", "here");
}
