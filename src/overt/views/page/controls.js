// Buttons, lists and keys.

/** @import { App } from "./app.js" */
/** @import { State } from "./store.js" */

import { byId } from "./dom.js";
import { exported } from "./exports.js";
import { TABS } from "./panels.js";

/** @type {Record<State["how"], State["how"]>} */
const NEXT = { one: "mean", mean: "max", max: "one" };

/** Let the page listen. @param {App} app */
export function controls(app) {
  /** @param {string} id @param {string} event @param {(event: any) => void} act */
  const on = (id, event, act) => byId(id).addEventListener(event, act);
  on("in", "click", () => app.seen.zoom(1.6));
  on("out", "click", () => app.seen.zoom(1 / 1.6));
  on("fit", "click", () => app.seen.fit());
  on("how", "change", ({ target }) => app.setHow(target.value));
  on("scale", "change", ({ target }) => app.store.change({ wish: target.value }));
  on("left", "change", ({ target }) => app.leave(target.value));
  on("words", "change", ({ target }) => app.store.change({ words: target.checked }));
  on("order", "change", ({ target }) => app.store.change({ order: target.value }));
  on("row", "change", ({ target }) => app.choose(app.part.index, app.head, Number(target.value)));
  on("count", "change", ({ target }) => {
    app.card.count = Number(target.value);
    app.refresh();
  });
  for (const kind of /** @type {const} */ (["png", "svg", "csv"])) on(kind, "click", () => exported(app, kind));
  on("theme", "click", () => app.setTheme());
  on("help", "click", () => byId("keys-help").showModal());
  on("play", "click", () => app.timeline.play());
  on("time", "input", ({ target }) => app.go(Number(target.value), app.key, "query"));
  on("sheet", "click", () => {
    const open = byId("card").classList.toggle("open");
    byId("sheet").setAttribute("aria-expanded", String(open));
    byId("sheet").textContent = open ? "Less" : "More";
  });
  for (const tab of TABS) on(`${tab}-tab`, "click", () => app.tab(tab));
  on("tabs", "keydown", (event) => {
    const step = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (!step) return;
    const shown = TABS.filter((tab) => !byId(`${tab}-tab`).hidden),
      next = shown[(shown.indexOf(app.tabName) + step + shown.length) % shown.length];
    event.stopPropagation();
    app.tab(next);
    byId(`${next}-tab`).focus();
  });
  document.addEventListener("keydown", (event) => pressed(app, event));
  addEventListener("popstate", () => app.follow());
  // A frame may learn how large it is after its script ran, without an event.
  new ResizeObserver(() => app.resized()).observe(byId("window"));
  for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"])
    matchMedia(query).addEventListener("change", () => app.repaint());
}

/** What a key does, unless somebody writes. @param {App} app @param {KeyboardEvent} event */
function pressed(app, event) {
  // Where brackets are typed with Option, or with AltGr, which is Control and Alt, these are no commands of the browser.
  const typed = /^[[\]{}]$/.test(event.key) && (event.altKey || event.getModifierState("AltGraph"));
  if (!typed && (event.ctrlKey || event.metaKey || event.altKey)) return;
  if ((event.target instanceof Element && /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) || document.querySelector("dialog[open]")) return;
  const far = event.shiftKey ? 10 : 1,
    index = app.part.index,
    steps = app.tabName === "steps",
    turn = (/** @type {number} */ x, /** @type {number} */ n) => (x + n) % n;
  const anywhere = {
    1: () => app.tab("text"),
    2: () => app.tab("matrix"),
    3: () => app.tab("compare"),
    4: () => app.tab("steps"),
    "]": () => app.choose(index, turn(app.head + 1, app.part.H)),
    "[": () => app.choose(index, turn(app.head + app.part.H - 1, app.part.H)),
    "}": () => app.choose(turn(index + 1, app.parts.length), app.head),
    "{": () => app.choose(turn(index + app.parts.length - 1, app.parts.length), app.head),
    d: () => app.setTheme(),
    "?": () => byId("keys-help").showModal(),
  };
  const cells = {
    ArrowLeft: () => app.go(app.query, app.key - far),
    ArrowRight: () => app.go(app.query, app.key + far),
    ArrowUp: () => app.go(app.query - far, app.key),
    ArrowDown: () => app.go(app.query + far, app.key),
    Home: () => app.go(app.query, 0),
    End: () => app.go(app.query, app.columns.length - 1),
    PageUp: () => app.go(0, app.key),
    PageDown: () => app.go(app.rows.length - 1, app.key),
    "/": () => byId("search").select(),
    n: () => app.finding.next(1),
    N: () => app.finding.next(-1),
    g: () => byId("goto").select(),
    "+": () => app.seen.zoom(1.6),
    "=": () => app.seen.zoom(1.6),
    "-": () => app.seen.zoom(1 / 1.6),
    0: () => app.seen.fit(),
    z: () => app.seen.reveal(app.query, app.key, true),
    a: () => app.part.H > 1 && app.setHow(NEXT[app.how]),
    w: () => (app.rows.marks || app.columns.marks) && app.store.change({ words: !app.words }),
    s: () => app.toggle(app.query),
    k: () => app.mark(app.key),
    x: () => app.leave(app.store.state.left ? "" : app.marked.size ? "marked" : "first"),
    Escape: () => app.store.change({ selected: [], marked: [] }),
    p: () => app.part.meta.prompt !== null && app.timeline.play(),
  };
  /** @type {Record<string, () => unknown>} */
  const acts = steps ? anywhere : { ...anywhere, ...cells },
    act = acts[event.key] ?? acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  // Space and Enter stay with the button that has the focus.
  if (!act) return;
  event.preventDefault();
  act();
}
