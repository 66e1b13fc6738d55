// The page: what is shown, and what the reader may do with it.

/** @import { Attention } from "./cells.js" */
/** @import { Meta } from "./types.js" */
/** @import { State } from "./store.js" */

import { Background } from "./background.js";
import { Card } from "./card.js";
import { Choice } from "./choice.js";
import { Compare } from "./compare.js";
import { controls } from "./controls.js";
import { byId } from "./dom.js";
import { Finding } from "./finding.js";
import { Heads } from "./heads.js";
import { legend } from "./legend.js";
import { Matrix } from "./matrix.js";
import { Minimap } from "./minimap.js";
import { compared, describe, follow, tell } from "./panels.js";
import { Profile } from "./profile.js";
import { Scheduler } from "./scheduler.js";
import { themes } from "./shades.js";
import { Steps } from "./steps.js";
import { BEGINNING } from "./store.js";
import { tabulate } from "./table.js";
import { Text } from "./text.js";
import { Timeline } from "./timeline.js";
import { Tip } from "./tip.js";

// Milliseconds that a word stays, and that the address may lag behind.
const SAID = 8000,
  LAG = 150;

export class App extends Choice {
  /** What `start` makes. @type {Matrix} */
  matrix;
  /** @type {Minimap} */
  minimap;
  /** @type {Profile} */
  profile;
  /** @type {Finding} */
  finding;
  /** @type {Card} */
  card;
  /** @type {Steps} */
  steps;
  /** @type {Text} */
  text;
  /** @type {Heads} */
  heads;
  /** @type {Compare} */
  compare;
  /** Told when the page is ready to be used. @type {Promise<unknown>} */
  ready;

  /** @param {Meta} meta */
  constructor(meta) {
    super(meta);
    this.themes = themes(meta.stops);
    this.background = new Background(this);
    this.scheduler = new Scheduler((slice) => this.background.go(slice));
    this.timeline = new Timeline(this);
    this.tip = new Tip(this);
    /** The order that the heads were laid out in last. */
    this.ordered = "";
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.silence = undefined;
    /** @type {ReturnType<typeof setTimeout> | undefined} */
    this.writing = undefined;
  }

  async start() {
    const first = opening(this.parts),
      part = await this.opened(first),
      said = this.store.read(),
      // Alignment is what all heads of a cross-attention agree on.
      how = part.meta.name === "cross" && part.H > 1 ? "mean" : "one",
      // Whoever has put two beside each other wants to compare them.
      beside = this.parts.some(({ meta }) => meta.source !== part.meta.source);
    Object.assign(this.store.state, { part: first, how });
    this.store.state.tab = beside ? "compare" : this.meta.steps && part.meta.steps ? "steps" : this.few ? "text" : "matrix";
    this._look();
    this.profile = new Profile(this);
    this.finding = new Finding(this);
    this.matrix = new Matrix(byId("matrix"), this, () => this.look, (scale, what, { lost }) =>
      legend(this, byId("legend"), scale, what, this.look, lost),
    );
    this.minimap = new Minimap(this);
    this.card = new Card(this);
    this.steps = new Steps(this);
    this.text = new Text(this);
    this.heads = new Heads(this);
    this.compare = new Compare(this);
    controls(this);
    this._follows();
    this._begin();
    if (this.tabName === "compare") await this.compare.update();
    if (said) await this._apply(said);
    this.store.write();
  }

  get busy() {
    return this.scheduler.busy || this.scheduler.frames.size > 0 || this.scheduler.jobs.size > 0;
  }
  /** The matrix that zoom and pan are meant for. */
  get seen() {
    return this.tabName === "compare" ? this.compare.shown[0] : this.matrix;
  }

  get dark() {
    const asked = document.documentElement.dataset.theme;
    return asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  get theme() {
    const theme = this.themes[this.dark ? "dark" : "light"];
    if (!matchMedia("(forced-colors: active)").matches) return theme;
    // The reader's own colours for all that is written on the page's ground.
    const { color: ink } = getComputedStyle(document.body);
    return { ...theme, ink, soft: ink, bar: ink, line: ink };
  }

  setTheme() {
    document.documentElement.dataset.theme = this.dark ? "light" : "dark";
    this.repaint();
  }

  repaint() {
    if (this.part.meta.steps) this.steps.update();
    this.scheduler.frame("heads", () => this.heads.drawAll());
    this.refresh();
  }

  /** Say something that went otherwise than wished. @param {string} text */
  say(text) {
    const said = byId("said");
    said.textContent = text;
    said.hidden = text === "";
    clearTimeout(this.silence);
    if (text) this.silence = setTimeout(() => this.say(""), SAID);
  }

  /** @param {() => unknown} act @param {() => void} [again] */
  attempt(act, again) {
    this.scheduler.attempt(act, again);
  }

  // What follows from a change of the state.
  /** @param {State} before */
  _changed(before) {
    const { state, compare } = this,
      other = (/** @type {(keyof State)[]} */ ...names) => names.some((name) => String(before[name]) !== String(state[name]));
    if (other("selected", "marked")) this._chosen();
    if (other("part", "row", "head", "how", "words", "left")) this._looks(before);
    if (other("query", "key") && this.tabName === "matrix") this.matrix.reveal(this.query, this.key);
    if (other("query", "key") && this.tabName === "compare")
      for (const matrix of compare.shown) matrix.reveal(this.query, this.key);
    if (other("tab", "part", "wish", "order", "left", "how", "row")) this._follows();
    if (other("tab", "second", "apart", "part", "head", "row", "how", "words", "left") && this.tabName === "compare")
      compare.update();
    if (other("tab") && this.tabName === "matrix") this.matrix.resized();
    this.refresh();
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.store.write(), LAG);
  }

  // Another look: the cursor stays at its tokens where there are such.
  /** @param {State} before */
  _looks(before) {
    const old = this.look,
      { state } = this;
    this._look();
    const same = old.part.T === this.part.T && old.part.S === this.part.S;
    if (!same || before.words !== state.words) {
      state.selected = [];
      state.marked = [];
      this._chosen();
    }
    if (!same) this._begin();
    else if (before.words !== state.words) {
      state.query = this.rows.of(old.rows.start(Math.min(before.query, old.rows.length - 1)));
      state.key = this.columns.of(old.columns.start(Math.min(before.key, old.columns.length - 1)));
    }
    if (old.rows.length !== this.rows.length || old.columns.length !== this.columns.length) this.matrix.fit();
    if (this.part.meta.steps && (before.part !== state.part || before.row !== state.row || before.head !== state.head)) this.steps.show();
    this.heads.mark();
    if (before.part !== state.part || before.head !== state.head) this.heads.reveal();
    this.scheduler.frame("heads", () => this.heads.drawAll());
    this.scheduler.wake();
  }

  // Where a reader begins.
  _begin() {
    const { state, look } = this;
    [state.query, state.key] = [this.rows.length - 1, 0];
    // The whole row of a text that lies beside the page is not worth waiting for.
    if (this.part.beside) state.key = Math.max(0, this.columns.of(this.part.span(this.row, this.head, this.part.T - 1)[1] - 1));
    else
      this.attempt(() => {
        // Cells may come late, when the reader looks elsewhere.
        if (this.look !== look || this.query !== this.rows.length - 1 || this.key) return;
        const { r, c } = look.beginning;
        if (c || r !== this.query) this.store.change({ query: r, key: c });
      });
    if (this.part.meta.steps) this.steps.show();
    this.matrix.fit();
    this.refresh();
  }

  // Panels, buttons and lists that say what the state says.
  _follows() {
    const { order, left, row } = this.state,
      ordered = `${order} ${left} ${row}`;
    follow(this);
    if (this.ordered !== ordered) {
      this.ordered = ordered;
      this.heads.arrange();
    }
    this.scheduler.frame("heads", () => this.heads.drawAll());
  }

  redraw() {
    this.scheduler.frame("draw", () => {
      if (this.tabName === "matrix") {
        this.matrix.draw();
        this.minimap.draw();
      }
      if (this.tabName === "compare") this.compare.draw();
    });
  }

  moved() {
    if (this.matrix) this.redraw();
  }

  resized() {
    if (this.tabName === "matrix") this.matrix.resized();
    if (this.tabName === "compare") for (const matrix of this.compare.shown) matrix.resized();
    if (this.tabName === "text") this.refresh();
  }

  refresh() {
    if (!this.matrix) return;
    this.redraw();
    this.scheduler.frame("panels", () => {
      this.timeline.draw();
      describe(this);
      this.card.draw();
      if (this.tabName === "text") this.text.draw();
      if (this.tabName === "matrix") tabulate(this);
      if (this.tabName === "compare") compared(this);
      tell(this);
    });
  }

  /** Go where the address says. */
  async follow() {
    const said = this.store.read();
    if (said) await this._apply(said);
  }

  /** @param {Partial<State>} said */
  async _apply(said) {
    const whole = { ...BEGINNING, tab: this.tabName, ...said },
      part = this.parts[whole.part] ?? this.part;
    await this.opened(part.index);
    this.store.change({
      ...whole,
      part: part.index,
      head: within(whole.head, part.H),
      row: within(whole.row, part.B),
      query: this.query,
      key: this.key,
      selected: [],
      marked: [],
    });
    this.store.change({
      query: within(whole.query, this.rows.length),
      key: within(whole.key, this.columns.length),
      selected: whole.selected.filter((r) => r >= 0 && r < this.rows.length),
      marked: whole.marked.filter((c) => c >= 0 && c < this.columns.length),
    });
    // What was read is what is written.
    this.store.push = false;
  }
}

/** @param {number} x @param {number} n */
const within = (x, n) => Math.max(0, Math.min(n - 1, x));
// A translation is looked at for its alignment: the last of its cross-attentions.  All else begins at its beginning.
/** @param {Attention[]} parts */
function opening(parts) {
  const { source } = parts[0].meta;
  return Math.max(
    0,
    parts.findLastIndex(({ meta }) => meta.name === "cross" && meta.source === source),
  );
}

const app = new App(JSON.parse(byId("meta").textContent));
// For those who look inside.
Object.assign(window, { overt: app });
app.ready = app
  .start()
  .then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
  .then(() => performance.mark("ready"));
