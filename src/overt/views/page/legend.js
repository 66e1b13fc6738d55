// What the shades below a picture mean.

/** @import { App } from "./app.js" */
/** @import { Scale } from "./shades.js" */
/** @import { Shown } from "./types.js" */

import { contextOf, element } from "./dom.js";
import { color, hatching, rampOf } from "./shades.js";

/**
 * @param {App} app
 * @param {HTMLElement} host
 * @param {Scale | null} scale null where nothing is painted yet
 * @param {string} what is seen: exact cells, bins or the overview
 * @param {Shown} look
 * @param {boolean} lost whether most weights are too faint to be seen
 */
export function legend(app, host, scale, what, look, lost = false) {
  const sums = look.sums(),
    key = [scale?.key, what, look.key, app.dark, sums !== null, lost].join();
  if (host.dataset.key === key) return;
  host.dataset.key = key;
  /** @type {HTMLElement[]} */
  const items = [];
  if (scale) {
    items.push(ramp(app, scale), element("span", {}, scale.name));
    if (scale.faint)
      items.push(element("strong", {}, `all of this is faint: the shades end at ${scale.ticks.at(-1)?.text} here, not at 1`));
  }
  items.push(element("span", {}, what));
  if (lost) {
    const offers = [element("button", { onclick: () => app.store.change({ wish: "log" }) }, "logarithmic shades")];
    if (!look.left && sums && sums.receivedShare[0] === sums.mostReceived)
      offers.push(element("button", { onclick: () => app.leave("first") }, "leave out the first token"));
    items.push(element("span", { class: "offer" }, "Most weights here are below 0.04: ", ...offers));
  }
  if (look.part.meta.mask || look.left) items.push(...hidden(app, look));
  if (sums && host.id === "legend")
    items.push(
      element(
        "span",
        {},
        `bars above: received, of what could look, 0 – ${Number(sums.mostReceived.toPrecision(3))}; beside: entropy, of the most possible, 0 – 1`,
      ),
    );
  host.replaceChildren(...items);
}

/** @param {App} app @param {Scale} scale */
function ramp({ theme }, scale) {
  const table = rampOf(theme, scale),
    stops = Array.from({ length: 17 }, (_, i) => color(table, i / 16)),
    bar = element("span", { class: "ramp", role: "img", "aria-label": `shades: ${scale.name}` });
  bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
  const ticks = scale.ticks.map(({ at, text }) => {
    const tick = element("span", { class: "tick" }, text);
    tick.style.left = `${100 * at}%`;
    return tick;
  });
  return element("span", { class: "scale" }, bar, element("span", { class: "ticks" }, ...ticks));
}

/** @param {App} app @param {Shown} look */
function hidden({ theme }, look) {
  const swatch = element("canvas", { class: "swatch", width: 28, height: 28, "aria-hidden": "true" }),
    g = contextOf(swatch),
    why = [look.part.meta.mask ? `masked by ${look.part.meta.mask}` : null, look.left ? "left out" : null];
  g.fillStyle = hatching(g, theme);
  g.fillRect(0, 0, 28, 28);
  return [swatch, element("span", {}, why.filter(Boolean).join(", or "))];
}
