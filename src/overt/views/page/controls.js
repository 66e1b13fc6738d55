// Buttons, lists and keys.

export function controls(app) {
  const on = (id, event, act) => document.getElementById(id).addEventListener(event, act),
    value = (event) => event.target.value;
  on("in", "click", () => app.matrix.zoom(1.6));
  on("out", "click", () => app.matrix.zoom(1 / 1.6));
  on("fit", "click", () => app.matrix.fit());
  on("how", "change", (event) => app.setHow(value(event)));
  on("scale", "change", (event) => {
    app.wish = value(event);
    app.repaint();
  });
  on("words", "change", (event) => app.setWords(event.target.checked));
  on("row", "change", (event) =>
    app.choose(app.parts.indexOf(app.part), app.head, Number(value(event))).then(() => app.repaint()),
  );
  on("count", "change", (event) => {
    app.inspector.count = Number(value(event));
    app.refresh();
  });
  on("theme", "click", () => app.setTheme());
  on("help", "click", () => document.getElementById("keys-help").showModal());
  on("play", "click", () => app.play());
  on("time", "input", (event) => app.go(Number(value(event)), app.key));
  for (const tab of ["map", "steps"]) on(`${tab}-tab`, "click", () => app.tab(tab));
  on("tabs", "keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const other = document.getElementById(document.activeElement.id === "map-tab" ? "steps-tab" : "map-tab");
    other.click();
    other.focus();
  });
  document.addEventListener("keydown", (event) => pressed(app, event));
  // A frame may learn how large it is after its script ran, without an event.
  new ResizeObserver(() => app.rows && app.matrix.resized()).observe(document.getElementById("window"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => app.repaint());
}

// What a key does while the matrix is shown.
function pressed(app, event) {
  // Where brackets are typed with Option, or with AltGr, which is Control and Alt, these are no commands of the browser.
  const typed = /^[[\]{}]$/.test(event.key) && (event.altKey || event.getModifierState("AltGraph"));
  if (!typed && (event.ctrlKey || event.metaKey || event.altKey)) return;
  if (/^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (document.querySelector("dialog[open]") || document.getElementById("map-panel").hidden) return;
  const far = event.shiftKey ? 10 : 1,
    index = app.parts.indexOf(app.part),
    turn = (x, n) => (x + n) % n;
  const acts = {
    ArrowLeft: () => app.go(app.query, app.key - far),
    ArrowRight: () => app.go(app.query, app.key + far),
    ArrowUp: () => app.go(app.query - far, app.key),
    ArrowDown: () => app.go(app.query + far, app.key),
    Home: () => app.go(app.query, 0),
    End: () => app.go(app.query, app.columns.length - 1),
    PageUp: () => app.go(0, app.key),
    PageDown: () => app.go(app.rows.length - 1, app.key),
    "+": () => app.matrix.zoom(1.6),
    "=": () => app.matrix.zoom(1.6),
    "-": () => app.matrix.zoom(1 / 1.6),
    0: () => app.matrix.fit(),
    z: () => app.matrix.reveal(app.query, app.key, true),
    "]": () => app.choose(index, turn(app.head + 1, app.part.H)),
    "[": () => app.choose(index, turn(app.head + app.part.H - 1, app.part.H)),
    "}": () => app.choose(turn(index + 1, app.parts.length), app.head),
    "{": () => app.choose(turn(index + app.parts.length - 1, app.parts.length), app.head),
    a: () => app.part.H > 1 && app.setHow({ one: "mean", mean: "max", max: "one" }[app.how]),
    w: () => (app.rows.marks || app.columns.marks) && app.setWords(!app.words),
    s: () => app.toggle(app.query),
    Escape: () => {
      app.selected.clear();
      app.refresh();
    },
    d: () => app.setTheme(),
    "?": () => document.getElementById("keys-help").showModal(),
    p: () => app.part.meta.prompt !== null && app.play(),
  };
  const act = acts[event.key.length === 1 && /[A-Z]/.test(event.key) ? event.key.toLowerCase() : event.key];
  // Space and Enter stay with the button that has the focus.
  if (!act) return;
  event.preventDefault();
  act();
}
