// Buttons, lists and keys.

import { byId } from "./dom.js";
import { exported } from "./exports.js";

export const TABS = ["text", "matrix", "compare", "steps"];

/** Let the page listen. @param {any} app */
export function controls(app) {
  const on = (id, event, act) => byId(id).addEventListener(event, act),
    value = (event) => event.target.value;
  on("in", "click", () => app.seen.zoom(1.6));
  on("out", "click", () => app.seen.zoom(1 / 1.6));
  on("fit", "click", () => app.seen.fit());
  on("how", "change", (event) => app.setHow(value(event)));
  on("scale", "change", (event) => app.store.change({ wish: value(event) }));
  on("left", "change", (event) => app.leave(value(event)));
  on("words", "change", (event) => app.setWords(event.target.checked));
  on("order", "change", (event) => app.store.change({ order: value(event) }));
  on("row", "change", (event) => app.choose(app.part.index, app.head, Number(value(event))));
  on("count", "change", (event) => {
    app.card.count = Number(value(event));
    app.refresh();
  });
  for (const kind of ["png", "svg", "csv"]) on(kind, "click", () => exported(app, kind));
  on("theme", "click", () => app.setTheme());
  on("help", "click", () => byId("keys-help").showModal());
  on("play", "click", () => app.play());
  on("time", "input", (event) => app.go(Number(value(event)), app.key, "query"));
  on("sheet", "click", () => {
    const open = byId("card").classList.toggle("open");
    byId("sheet").setAttribute("aria-expanded", String(open));
    byId("sheet").textContent = open ? "Less" : "More";
  });
  for (const tab of TABS) on(`${tab}-tab`, "click", () => app.tab(tab));
  on("tabs", "keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
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

// What a key does, unless somebody writes.
function pressed(app, event) {
  // Where brackets are typed with Option, or with AltGr, which is Control and Alt, these are no commands of the browser.
  const typed = /^[[\]{}]$/.test(event.key) && (event.altKey || event.getModifierState("AltGraph"));
  if (!typed && (event.ctrlKey || event.metaKey || event.altKey)) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName) || document.querySelector("dialog[open]")) return;
  const far = event.shiftKey ? 10 : 1,
    index = app.part.index,
    steps = app.tabName === "steps",
    turn = (x, n) => (x + n) % n;
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
    a: () => app.part.H > 1 && app.setHow({ one: "mean", mean: "max", max: "one" }[app.how]),
    w: () => (app.rows.marks || app.columns.marks) && app.setWords(!app.words),
    s: () => app.toggle(app.query),
    k: () => app.mark(app.key),
    x: () => app.leave(app.store.state.left ? "" : app.marked.size ? "marked" : "first"),
    Escape: () => app.store.change({ selected: [], marked: [] }),
    p: () => app.part.meta.prompt !== null && app.play(),
  };
  const acts = steps ? anywhere : { ...anywhere, ...cells },
    act = acts[event.key] ?? acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
  // Space and Enter stay with the button that has the focus.
  if (!act) return;
  event.preventDefault();
  act();
}
