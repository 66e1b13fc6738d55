// The page: what is shown, and what the reader may do with it.

import { Card } from "./card.js";
import { Attention, MASKED } from "./cells.js";
import { Compare } from "./compare.js";
import { TABS, controls } from "./controls.js";
import { byId, counted, element, shortened } from "./dom.js";
import { Finding } from "./finding.js";
import { Heads } from "./heads.js";
import { LeftOut, Look } from "./look.js";
import { Matrix } from "./matrix.js";
import { Minimap } from "./minimap.js";
import { Profile } from "./profile.js";
import { Python, Remote } from "./remote.js";
import { Scheduler } from "./scheduler.js";
import { color, hatching, rampOf, themes } from "./shades.js";
import { Steps } from "./steps.js";
import { BEGINNING, Store } from "./store.js";
import { tabulate } from "./table.js";
import { FEW, Text } from "./text.js";
import { special } from "./words.js";

class App {
  /** What `start` makes. @type {Look} */
  look;
  /** @type {Matrix} */
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
  /** Selected queries. @type {Set<number>} */
  selected;
  /** Selected keys. @type {Set<number>} */
  marked;
  /** Told when the page is ready to be used. @type {Promise<any>} */
  ready;

  /** @param {any} meta */
  constructor(meta) {
    this.meta = meta;
    const python = meta.remote ? new Python() : null;
    this.parts = meta.parts.map((part, i) =>
      python && !part.q ? new Remote(part, meta.lists, i, python) : new Attention(part, meta.lists, i),
    );
    this.longest = Math.max(...this.parts.map((part) => part.S));
    this.themes = themes(meta.stops);
    this.scheduler = new Scheduler();
    this.scheduler.background = (slice) => this._background(slice);
    this.store = new Store((before) => this._changed(before));
    /** Which side of the cell was chosen last: its lines are shown. */
    this.side = "query";
    this.lefts = new Map();
    this.playing = null;
    this.scanning = null;
  }

  async start() {
    const first = opening(this.parts),
      part = await this.opened(first),
      said = this.store.read(),
      // Alignment is what all heads of a cross-attention agree on.
      how = part.meta.name === "cross" && part.H > 1 ? "mean" : "one",
      few = part.T <= FEW && part.S <= FEW,
      // Whoever has put two beside each other wants to compare them.
      beside = this.parts.some(({ meta }) => meta.source !== part.meta.source),
      tab = beside ? "compare" : this.meta.steps && part.meta.steps ? "steps" : few ? "text" : "matrix";
    Object.assign(this.store.state, { part: first, how, tab });
    this._look();
    this.profile = new Profile(this);
    this.finding = new Finding(this);
    this.matrix = new Matrix(byId("matrix"), this, () => this.look, (scale, what, { lost }) =>
      this.legend(byId("legend"), scale, what, this.look, lost),
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

  get state() {
    return this.store.state;
  }
  get part() {
    return this.parts[this.state.part];
  }
  get row() {
    return this.state.row;
  }
  get head() {
    return this.state.head;
  }
  get how() {
    return this.state.how;
  }
  get words() {
    return this.state.words;
  }
  get wish() {
    return this.state.wish;
  }
  get query() {
    return this.state.query;
  }
  get key() {
    return this.state.key;
  }
  get tabName() {
    return this.state.tab;
  }
  get rows() {
    return this.look.rows;
  }
  get columns() {
    return this.look.columns;
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

  /** Weights of a box of units. */
  cells(r0, r1, c0, c1) {
    return this.look.cells(r0, r1, c0, c1);
  }

  /** An attention, when its numbers are here. */
  async opened(index) {
    return this.parts[index].open();
  }

  rowOf(part) {
    return Math.min(this.row, part.B - 1);
  }

  /** The keys of an attention that are left out, null for none. @returns {LeftOut | null} */
  leftOf(part) {
    const { left } = this.state,
      id = `${part.index} ${left}`;
    if (!left) return null;
    if (!this.lefts.has(id)) {
      let keys = [];
      if (left === "first") keys = [0];
      else if (left === "special") part.keys?.forEach((key, s) => special(key) && keys.push(s));
      // Keys by number are those of attentions over the same tokens.
      else if (part.S === this.part.S) keys = left.split(",").map(Number).filter((s) => s >= 0 && s < part.S);
      this.lefts.set(id, keys.length && keys.length < part.S ? new LeftOut(left, keys.sort((a, b) => a - b), part.S) : null);
    }
    return this.lefts.get(id);
  }

  /** Choose an attention and a head of it. */
  async choose(index, head, row = this.row, how = this.how) {
    await this.opened(index);
    const part = this.parts[index];
    this.store.change({ part: index, head: Math.min(head, part.H - 1), row: Math.min(row, part.B - 1), how });
  }

  pick(index, head) {
    return this.choose(index, head, this.row, "one");
  }

  second(chosen) {
    this.store.change({ second: chosen });
  }

  compareWith(index, head) {
    this.store.change({ second: [index, this.rowOf(this.parts[index]), head], tab: "compare" });
  }

  /** Choose a cell. */
  go(r, c, side = this.side) {
    this.side = side;
    this.store.change({
      query: Math.max(0, Math.min(this.rows.length - 1, r)),
      key: Math.max(0, Math.min(this.columns.length - 1, c)),
    });
  }

  toggle(r) {
    this.side = "query";
    this.store.change({ selected: turned(this.selected, r), query: r });
  }

  mark(c) {
    this.side = "key";
    this.store.change({ marked: turned(this.marked, c), key: c });
  }

  /** Leave keys out of all that is shown: "", "first", "special" or "marked". */
  leave(which) {
    let left = which;
    if (which === "marked") {
      const keys = [];
      for (const c of this.marked) for (let s = this.columns.start(c); s < this.columns.end(c); s++) keys.push(s);
      left = keys.sort((a, b) => a - b).join(",");
      if (!left) this.say("No key is selected: hold Shift and click on keys, or press k.");
    }
    this.store.change({ left });
    if (left && !this.look.left) this.say("There is no such key here, or nothing would be left.");
  }

  setHow(how) {
    this.store.change({ how });
  }

  setWords(words) {
    this.store.change({ words });
  }

  tab(name) {
    if (!byId(`${name}-tab`).hidden) this.store.change({ tab: name });
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

  /** Say something that went otherwise than wished. */
  say(text) {
    const said = byId("said");
    said.textContent = text;
    said.hidden = text === "";
    clearTimeout(this.silence);
    this.silence = setTimeout(() => this.say(""), text ? 8000 : 0);
    if (!text) clearTimeout(this.silence);
  }

  attempt(act, again) {
    this.scheduler.attempt(act, again);
  }

  // What follows from a change of the state.
  _changed(before) {
    const { state } = this,
      other = (...names) => names.some((name) => String(before[name]) !== String(state[name]));
    if (other("selected", "marked")) this._chosen();
    if (other("part", "row", "head", "how", "words", "left")) this._looks(before);
    if (other("query", "key") && this.tabName === "matrix") this.matrix.reveal(this.query, this.key);
    if (other("query", "key") && this.tabName === "compare")
      for (const matrix of this.compare.shown) matrix.reveal(this.query, this.key);
    if (other("tab", "part", "wish", "order", "left", "how", "row")) this._follows();
    if (other("tab", "second", "apart", "part", "head", "row", "how", "words", "left") && this.tabName === "compare")
      this.compare.update();
    if (other("tab") && this.tabName === "matrix") this.matrix.resized();
    this.refresh();
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.store.write(), 150);
  }

  _chosen() {
    this.selected = new Set(this.state.selected);
    this.marked = new Set(this.state.marked);
  }

  _look() {
    const { part } = this;
    this.look = new Look(part, this.row, this.head, this.how, this.words, this.leftOf(part));
    this._chosen();
  }

  // Another look: the cursor stays at its tokens where there are such.
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

  // The last query, and what it looks at most.
  _begin() {
    const { state, look } = this;
    [state.query, state.key] = [this.rows.length - 1, 0];
    // The whole row of a text that lies beside the page is not worth waiting for.
    if (this.part.beside) state.key = Math.max(0, this.columns.of(this.part.span(this.row, this.head, this.part.T - 1)[1] - 1));
    else
      this.attempt(() => {
        // Cells may come late, when the reader looks elsewhere.
        if (this.look !== look || this.query !== this.rows.length - 1 || this.key) return;
        const best = look.heaviest(this.query);
        if (best) this.store.change({ key: best });
      });
    if (this.part.meta.steps) this.steps.show();
    this.matrix.fit();
    this.refresh();
  }

  // Panels, buttons and lists that say what the state says.
  _follows() {
    const { part, state } = this,
      alone = this.parts.length === 1 && part.H === 1 && part.B === 1;
    byId("steps-tab").hidden = !part.meta.steps;
    byId("compare-tab").hidden = alone;
    if (byId(`${state.tab}-tab`).hidden) state.tab = part.T <= FEW && part.S <= FEW ? "text" : "matrix";
    for (const tab of TABS) {
      byId(`${tab}-panel`).hidden = tab !== state.tab;
      byId(`${tab}-tab`).setAttribute("aria-selected", String(tab === state.tab));
      byId(`${tab}-tab`).tabIndex = tab === state.tab ? 0 : -1;
    }
    document.body.dataset.tab = state.tab;
    byId("zooming").hidden = state.tab === "text";
    byId("tools").hidden = state.tab === "steps";
    byId("words-label").hidden = !(this.rows.marks || this.columns.marks);
    byId("words").checked = state.words;
    byId("how-label").hidden = part.H < 2;
    byId("row-label").hidden = part.B < 2;
    if (byId("row").options.length !== part.B)
      byId("row").replaceChildren(...Array.from({ length: part.B }, (_, b) => element("option", { value: b }, String(b))));
    const left = byId("left");
    left.options[2].disabled = !part.keys?.some(special);
    for (const [id, value] of Object.entries({ how: state.how, row: state.row, scale: state.wish, order: state.order }))
      byId(id).value = String(value);
    left.value = ["", "first", "special"].includes(state.left) ? state.left : "marked";
    byId("left-note").hidden = !this.look.left;
    byId("left-note").textContent = this.leftText().replace(/^ · l/, "L");
    if (this.ordered !== `${state.order} ${state.left} ${state.row}`) {
      this.ordered = `${state.order} ${state.left} ${state.row}`;
      this.heads.arrange();
    }
    this.scheduler.frame("heads", () => this.heads.drawAll());
  }

  /** What is left out, and that the rest is divided by what remains. */
  leftText() {
    const { left, part } = this.look;
    if (!left) return "";
    const names = left.keys.slice(0, 3).map((s) => `“${shortened(part.key(s), 20)}”`),
      more = left.keys.length - names.length;
    return ` · left out: ${names.join(", ")}${more > 0 ? ` and ${counted(more)} more` : ""}; every query's other weights are renormalised to 1`;
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
      this._timeline();
      this._describe();
      this.card.draw();
      if (this.tabName === "text") {
        this.text.draw();
        const { scale } = this.heads;
        this.legend(byId("text-legend"), scale, "exact cells", this.look);
      }
      if (this.tabName === "matrix") tabulate(this);
      if (this.tabName === "compare") this._compared();
      this._status();
    });
  }

  // The chosen cell in both.
  _compared() {
    const { query, key, compare } = this,
      has = ({ rows, columns }) => query < rows.length && key < columns.length,
      weight = (look) => (has(look) ? look.cells(query, query + 1, key, key + 1)[0] : MASKED);
    if (!compare.other) return;
    const [a, b] = [weight(this.look), weight(compare.other)],
      text = (w) => (w === MASKED ? "masked" : w.toPrecision(5));
    const difference = Math.max(b, 0) - Math.max(a, 0);
    byId("compared").replaceChildren(
      ...[
        [this.nameOf(this.look), text(a)],
        [this.nameOf(compare.other), text(b)],
        ["difference", `${difference > 0 ? "+" : ""}${difference.toPrecision(5)}`],
      ].flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]),
    );
  }

  hover(matrix, px, py) {
    const tip = byId("tip"),
      hit = matrix?.hit(px, py) ?? null;
    this.hovered = hit;
    tip.hidden = true;
    if (hit?.row && hit.column) this.attempt(() => this.hovered === hit && this._tip(tip, matrix, hit, px, py));
  }

  _tip(tip, matrix, hit, px, py) {
    const { look } = matrix,
      [r0, r1, c0, c1] = matrix.bin(px, py),
      many = (r1 - r0) * (c1 - c0);
    // Where a dot is many cells it is the heaviest that is seen.
    const { r, c } = many > 1 && many * look.cost < 2 ** 22 ? matrix.heaviest([r0, r1, c0, c1]) : hit;
    let [w] = look.cells(r, r + 1, c, c + 1);
    if (look.signed && w !== MASKED) w = 2 * w - 1;
    tip.replaceChildren(
      element("bdi", {}, shortened(look.rows.name(r), 30)),
      " → ",
      element("bdi", {}, shortened(look.columns.name(c), 30)),
      element("b", {}, `  ${w === MASKED ? (look.leftOut(c) ? "left out" : "masked") : w.toPrecision(4)}`),
    );
    tip.hidden = false;
    const area = matrix.canvas.getBoundingClientRect(),
      [x, y] = [area.left + px, area.top + py];
    tip.style.left = `${Math.max(4, Math.min(x + 14, innerWidth - tip.offsetWidth - 4))}px`;
    tip.style.top = `${y + 18 + tip.offsetHeight > innerHeight ? y - tip.offsetHeight - 10 : y + 18}px`;
  }

  /** What the shades below a picture mean. */
  legend(host, scale, what, look, lost = false) {
    const sums = look.sums(),
      key = [scale?.key, what, look.key, this.dark, sums !== null, lost].join();
    if (host.dataset.key === key) return;
    host.dataset.key = key;
    const items = [];
    if (scale) {
      const table = rampOf(this.theme, scale),
        stops = Array.from({ length: 17 }, (_, i) => color(table, i / 16)),
        bar = element("span", { class: "ramp", role: "img", "aria-label": `shades: ${scale.name}` });
      bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
      const ticks = scale.ticks.map(({ at, text }) => {
        const tick = element("span", { class: "tick" }, text);
        tick.style.left = `${100 * at}%`;
        return tick;
      });
      items.push(element("span", { class: "scale" }, bar, element("span", { class: "ticks" }, ...ticks)), element("span", {}, scale.name));
      if (scale.faint)
        items.push(element("strong", {}, `all of this is faint: the darkest shade is ${scale.ticks.at(-1).text} here, not 1`));
    }
    items.push(element("span", {}, what));
    if (lost) {
      const offers = [element("button", { onclick: () => this.store.change({ wish: "log" }) }, "logarithmic shades")];
      if (!look.left && sums && sums.receivedShare[0] === sums.mostReceived)
        offers.push(element("button", { onclick: () => this.leave("first") }, "leave out the first token"));
      items.push(element("span", { class: "offer" }, "Most weights here are below 0.04: ", ...offers));
    }
    if (look.part.meta.mask || look.left) {
      const swatch = element("canvas", { class: "swatch", width: 28, height: 28, "aria-hidden": "true" }),
        g = swatch.getContext("2d");
      g.fillStyle = hatching(g, this.theme);
      g.fillRect(0, 0, 28, 28);
      const why = [look.part.meta.mask ? `masked by ${look.part.meta.mask}` : null, look.left ? "left out" : null];
      items.push(swatch, element("span", {}, why.filter(Boolean).join(", or ")));
    }
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

  title(part) {
    const { layer, name, source } = part.meta,
      alone = this.parts.filter((other) => other.meta.source === source).length === 1;
    return [source, alone && !layer && name === "attention" ? (source ? null : name) : `layer ${layer} · ${name}`]
      .filter(Boolean)
      .join(" · ");
  }

  /** What a look shows, in words. */
  nameOf({ part, head, how, row }) {
    const which = { one: `head ${head} of ${part.H}`, mean: `mean of ${part.H} heads`, max: `largest of ${part.H} heads` }[how];
    return `${this.title(part)}${part.H > 1 && which ? ` · ${which}` : ""}${part.B > 1 ? ` · row ${row}` : ""}`;
  }

  _describe() {
    const { part } = this;
    byId("where").textContent =
      `${this.nameOf(this.look)} · ${counted(part.T)} queries × ${counted(part.S)} keys` +
      `${part.meta.rounded ? ` · q and k kept in ${part.meta.q.dtype}, cells exact for these` : ""}`;
  }

  _status() {
    const [w] = this.cells(this.query, this.query + 1, this.key, this.key + 1);
    byId("status").textContent =
      `query ${shortened(this.rows.name(this.query))}, key ${shortened(this.columns.name(this.key))}: ${w === MASKED ? (this.look.leftOut(this.key) ? "left out" : "masked") : w.toPrecision(4)}`;
  }

  // What nobody waits for: a pass over every head, those that are shown first.
  async _background(slice) {
    if (!this.scanning) {
      const next = this._unknown();
      if (!next) return null;
      const { part, b, h, left } = next;
      await part.open();
      await part.prepare(b, h, left, () => part === this.part && this.redraw());
      this.scanning = { ...next, steps: part.scanning(b, h, left) };
    }
    const { part, b, h, left, steps } = this.scanning,
      until = performance.now() + slice;
    let next = steps.next();
    while (!next.done && performance.now() < until) next = steps.next();
    if (!next.done) return true;
    part.scans.set(part.scanned(b, h, left), next.value);
    this.scanning = null;
    const shown = part === this.part && b === this.row && left === this.look.left && this.look.heads.includes(h);
    if (b === this.rowOf(part) && left === this.leftOf(part)) this.heads.draw(part, h, this.drawnScale ?? this.heads.scale);
    if (shown && this.look.sums()) {
      this.drawnScale = this.heads.scale;
      this.scheduler.frame("heads", () => this.heads.drawAll());
      this.refresh();
    }
    if (this.state.order !== "layer") this.scheduler.frame("order", () => this.heads.arrange());
    return true;
  }

  // The next head that no pass has been over.
  _unknown() {
    const looks = [this.look, this.tabName === "compare" ? this.compare.other : null];
    for (const look of looks)
      for (const h of look?.heads ?? [])
        if (look && !look.part.scan(look.row, h, look.left)) return { part: look.part, b: look.row, h, left: look.left };
    const whole = (part) => part.scan(this.rowOf(part), 0, this.leftOf(part));
    // A first picture of every attention before the last one's last head.
    for (const only of [true, false])
      for (const part of this.parts) {
        if (only && whole(part)) continue;
        for (let h = 0; h < (only ? 1 : part.H); h++) {
          const b = this.rowOf(part),
            left = this.leftOf(part);
          if (!part.scan(b, h, left)) return { part, b, h, left };
        }
      }
    for (const part of this.parts)
      for (let b = 0; b < part.B; b++)
        for (let h = 0; h < part.H; h++) if (!part.scan(b, h)) return { part, b, h, left: null };
    return null;
  }

  _timeline() {
    const { prompt } = this.part.meta;
    byId("timeline").hidden = prompt === null || this.tabName === "steps";
    if (prompt === null) return;
    const slider = byId("time");
    [slider.min, slider.max, slider.value] = [0, this.rows.length - 1, this.query];
    const token = this.rows.start(this.query);
    byId("time-name").textContent =
      token < prompt ? `prompt, token ${token}` : `generated token ${token - prompt + 1} of ${this.part.T - prompt}`;
  }

  play() {
    const button = byId("play");
    if (this.playing) {
      clearInterval(this.playing);
      this.playing = null;
      button.textContent = "Play";
      return;
    }
    button.textContent = "Pause";
    if (this.query === this.rows.length - 1) this.go(this.rows.of(this.part.meta.prompt), this.key, "query");
    this.playing = setInterval(() => {
      if (this.query >= this.rows.length - 1) this.play();
      else this.go(this.query + 1, this.key, "query");
    }, 700);
  }

  /** Go where the address says. */
  async follow() {
    const said = this.store.read();
    if (said) await this._apply(said);
  }

  async _apply(said) {
    const whole = { ...BEGINNING, ...said },
      part = this.parts[whole.part] ?? this.part,
      within = (x, n) => Math.max(0, Math.min(n - 1, x));
    await this.opened(part.index);
    if (!TABS.includes(whole.tab)) whole.tab = this.tabName;
    if (!["one", "mean", "max"].includes(whole.how)) whole.how = "one";
    if (!["linear", "largest", "log"].includes(whole.wish)) whole.wish = "linear";
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
    const some = (list, n) => list.filter((x) => x >= 0 && x < n);
    this.store.change({
      query: within(whole.query, this.rows.length),
      key: within(whole.key, this.columns.length),
      selected: some(whole.selected, this.rows.length),
      marked: some(whole.marked, this.columns.length),
    });
    // What was read is what is written.
    this.store.push = false;
  }
}

const turned = (set, x) => (set.has(x) ? [...set].filter((y) => y !== x) : [...set, x]);

// A translation is looked at for its alignment: the last of its cross-attentions.  All else begins at its beginning.
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
