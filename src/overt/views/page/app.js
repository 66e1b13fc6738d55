// The page: what is shown, and what the reader may do with it.

import { Attention, MASKED, largest } from "./cells.js";
import { DARK, DARK_THEME, LIGHT_THEME, Scale, ramp } from "./shades.js";
import { Units, inWords, merged } from "./words.js";
import { Overview } from "./overview.js";
import { Inspector, element, shortened } from "./inspector.js";
import { controls } from "./controls.js";
import { Python, Remote } from "./remote.js";
import { Steps } from "./steps.js";
import { Matrix } from "./matrix.js";

class App {
  constructor(meta) {
    this.meta = meta;
    const python = meta.remote ? new Python() : null;
    this.parts = meta.parts.map((part, i) =>
      python && !part.q ? new Remote(part, meta.lists, i, python) : new Attention(part, meta.lists),
    );
    this.part = this.parts[0];
    Object.assign(this, {
      row: 0,
      head: 0,
      how: "one",
      words: false,
      wish: "auto",
      query: 0,
      key: 0,
      selected: new Set(),
      version: 0,
    });
    this.themes = { light: { ...LIGHT_THEME, ramp: ramp(meta.stops) }, dark: { ...DARK_THEME, ramp: ramp(DARK) } };
    this.matrix = new Matrix(document.getElementById("matrix"), this);
    this.inspector = new Inspector(this);
    this.steps = new Steps(this);
    this.queue = [];
    this.playing = null;
  }

  async start() {
    this.overview = new Overview(this);
    controls(this);
    const first = opening(this.parts);
    // Alignment is what all heads of a cross-attention agree on.
    if (this.parts[first].meta.name === "cross" && this.parts[first].H > 1) this.how = "mean";
    await this.choose(first, 0);
    this.tab(this.meta.steps && this.part.meta.steps ? "steps" : "map");
    for (const part of this.parts)
      for (let b = 0; b < part.B; b++) for (let h = 0; h < part.H; h++) this.queue.push([part, b, h]);
    this._idle();
  }

  get heads() {
    return this.how === "one" ? [this.head] : Array.from({ length: this.part.H }, (_, h) => h);
  }

  get dark() {
    const asked = document.documentElement.dataset.theme;
    return asked ? asked === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  }

  get theme() {
    return this.themes[this.dark ? "dark" : "light"];
  }

  // Weights of a box of units, of one head or of all together.
  cells(r0, r1, c0, c1) {
    const { rows, columns } = this;
    const w = this.part.blend(
      this.row,
      this.heads,
      this.how,
      rows.start(r0),
      rows.end(r1 - 1),
      columns.start(c0),
      columns.end(c1 - 1),
    );
    return merged(w, rows, columns, r0, r1, c0, c1);
  }

  async choose(index, head, row = this.row) {
    const part = this.parts[index],
      other = part !== this.part || !this.rows;
    await part.open();
    Object.assign(this, { part, head: Math.min(head, part.H - 1), row: Math.min(row, part.B - 1) });
    this.changed(other);
    this._describe();
    if (part.meta.steps) this.steps.show();
    document.getElementById("steps-tab").hidden = !part.meta.steps;
    if (!part.meta.steps) this.tab("map");
  }

  // What the axes mean, again; the cursor stays at its tokens where it can.
  changed(refit) {
    const at = this.rows && !refit ? [this.rows.start(this.query), this.columns.start(this.key)] : null;
    this.version++;
    this.rows = new Units(this.part.T, this.part.queries, this.words);
    this.columns = new Units(this.part.S, this.part.keys, this.words);
    const same = at && this.rows.length === this.matrix.rowsBefore && this.columns.length === this.matrix.columnsBefore;
    [this.matrix.rowsBefore, this.matrix.columnsBefore] = [this.rows.length, this.columns.length];
    if (at) [this.query, this.key] = [this.rows.of(at[0]), this.columns.of(at[1])];
    else {
      const version = this.version,
        last = this.rows.length - 1;
      [this.query, this.key] = [last, 0];
      this.attempt(() => {
        // Cells may come late, when the reader looks elsewhere.
        if (this.version !== version || this.query !== last || this.key) return;
        const best = largest(this.cells(last, last + 1, 0, this.columns.length), 1);
        this.key = best.length ? best[0][0] : 0;
        this.refresh();
      });
    }
    if (!same) {
      this.selected.clear();
      this.matrix.fit();
    }
    document.getElementById("words-label").hidden = !(this.rows.marks || this.columns.marks);
    this.refresh();
  }

  go(r, c) {
    this.query = Math.max(0, Math.min(this.rows.length - 1, r));
    this.key = Math.max(0, Math.min(this.columns.length - 1, c));
    this.matrix.reveal(this.query, this.key);
    this.refresh();
  }

  toggle(r) {
    if (!this.selected.delete(r)) this.selected.add(r);
    this.query = r;
    this.refresh();
  }

  // Do what needs cells.  Those that are computed elsewhere are thrown as a promise until they are here: then `again`.
  attempt(act, again = () => this.attempt(act)) {
    try {
      act();
    } catch (cells) {
      if (!(cells instanceof Promise)) throw cells;
      cells.then(again, ({ message }) => (document.getElementById("status").textContent = message));
    }
  }

  // Draw again, once, when the browser next paints.
  redraw() {
    this.waiting ??= requestAnimationFrame(() => {
      this.waiting = null;
      this.attempt(
        () => this.matrix.draw(),
        () => this.redraw(),
      );
      this._idle();
    });
  }

  refresh() {
    this.redraw();
    this.refreshing ??= requestAnimationFrame(() => {
      this.refreshing = null;
      this._timeline();
      this.attempt(
        () => {
          this.inspector.draw();
          this._status();
        },
        () => this.refresh(),
      );
    });
  }

  // Largest weights of the whole matrix, as far as they are known.
  coarse() {
    const scans = this.heads.map((h) => this.part.scan(this.row, h));
    if (scans.some((scan) => !scan)) return null;
    if (this.blended?.version === this.version) return this.blended;
    const values = Float32Array.from(scans[0].largest);
    if (scans.length > 1)
      for (let i = 0; i < values.length; i++) {
        const bins = scans.map(({ largest }) => largest[i]).filter((w) => w !== MASKED);
        const sum = bins.reduce((a, b) => a + b, 0) / scans.length;
        values[i] = bins.length === 0 ? MASKED : this.how === "max" ? Math.max(...bins) : sum;
      }
    const { rows, columns } = scans[0];
    this.blended = { version: this.version, ...inWords({ rows, columns, values }, this.rows, this.columns) };
    return this.blended;
  }

  // The same shades whatever part of a head is seen.
  scaleOf(values) {
    const whole = this.heads.length === 1 ? this.coarse() : null;
    const key = `${this.version} ${this.wish} ${whole !== null}`;
    if (this.scaled?.key !== key) this.scaled = { key, scale: new Scale((whole ?? { values }).values, this.wish) };
    return this.scaled.scale;
  }

  // Received attention of each unit of keys and entropy of each unit of queries, the mean of the heads shown.
  sums() {
    const scans = this.heads.map((h) => this.part.scan(this.row, h));
    if (scans.some((scan) => !scan)) return null;
    if (this.summed?.version === this.version) return this.summed;
    const over = (units, name, mean) => {
      const out = new Float64Array(units.length);
      for (let i = 0; i < units.length; i++) {
        for (let j = units.start(i); j < units.end(i); j++)
          for (const scan of scans) out[i] += scan[name][j] / scans.length;
        if (mean) out[i] /= units.end(i) - units.start(i);
      }
      return out;
    };
    const received = over(this.columns, "received", false),
      entropy = over(this.rows, "entropy", true);
    const most = (x) => x.reduce((a, b) => Math.max(a, b), 0) || 1;
    this.summed = {
      version: this.version,
      received,
      entropy,
      mostReceived: most(received),
      mostEntropy: most(entropy),
    };
    return this.summed;
  }

  hover(hit, px, py) {
    const tip = document.getElementById("tip");
    this.hovered = hit;
    tip.hidden = true;
    if (hit?.row && hit.column) this.attempt(() => this.hovered === hit && this._tip(tip, hit, px, py));
  }

  _tip(tip, hit, px, py) {
    const w = this.cells(hit.r, hit.r + 1, hit.c, hit.c + 1)[0];
    tip.replaceChildren(
      element("bdi", {}, shortened(this.rows.name(hit.r), 30)),
      " → ",
      element("bdi", {}, shortened(this.columns.name(hit.c), 30)),
      element("b", {}, `  ${w === MASKED ? "masked" : w.toPrecision(4)}`),
    );
    tip.hidden = false;
    const area = this.matrix.canvas.getBoundingClientRect();
    tip.style.left = `${Math.max(4, Math.min(px + 14, area.width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${py + 18 + tip.offsetHeight > area.height ? py - tip.offsetHeight - 10 : py + 18}px`;
  }

  legend(scale, what) {
    const host = document.getElementById("legend"),
      { ramp } = this.theme,
      stops = [];
    for (let i = 0; i <= 8; i++) {
      const at = 3 * Math.round((i / 8) * 255);
      stops.push(`rgb(${ramp[at]},${ramp[at + 1]},${ramp[at + 2]})`);
    }
    const bar = element("span", {
      class: "ramp",
      role: "img",
      "aria-label": "shades from the lowest to the highest weight",
    });
    bar.style.background = `linear-gradient(to right, ${stops.join(",")})`;
    const ends = scale ? [scale.log ? scale.low.toExponential(0) : "0", scale.high.toPrecision(3)] : null;
    host.replaceChildren(
      ...(ends
        ? [element("span", {}, ends[0]), bar, element("span", {}, `${ends[1]}${scale.log ? ", logarithmic" : ""}`)]
        : []),
      element("span", { class: "what" }, what),
      ...(this.part.meta.mask
        ? [element("span", { class: "swatch" }), element("span", {}, `masked by ${this.part.meta.mask}`)]
        : []),
    );
  }

  title(part) {
    return this.parts.length > 1 || part.meta.layer || part.meta.name !== "attention"
      ? `layer ${part.meta.layer} · ${part.meta.name}`
      : part.meta.name;
  }

  _describe() {
    const { part } = this,
      n = (x) => x.toLocaleString("en");
    const which =
      this.how === "one"
        ? `head ${this.head} of ${part.H}`
        : `${this.how === "mean" ? "mean" : "largest"} of ${part.H} heads`;
    document.getElementById("where").textContent =
      `${this.title(part)} · ${part.H > 1 ? `${which} · ` : ""}${n(part.T)} queries × ${n(part.S)} keys` +
      `${part.meta.rounded ? ` · q and k kept in ${part.meta.q.dtype}, cells exact for these` : ""}`;
    this.overview.mark();
    const rows = document.getElementById("row");
    document.getElementById("row-label").hidden = part.B < 2;
    if (rows.options.length !== part.B)
      rows.replaceChildren(...Array.from({ length: part.B }, (_, b) => element("option", { value: b }, String(b))));
    rows.value = String(this.row);
    document.getElementById("how-label").hidden = part.H < 2;
    document.getElementById("how").value = this.how;
  }

  _status() {
    const w = this.cells(this.query, this.query + 1, this.key, this.key + 1)[0];
    document.getElementById("status").textContent =
      `query ${shortened(this.rows.name(this.query))}, key ${shortened(this.columns.name(this.key))}: ${w === MASKED ? "masked" : w.toPrecision(4)}`;
  }

  // What nobody waits for: the exact picture of a large window, then the overview of every head, the current ones first.
  _idle() {
    if (this.busy) return;
    this.busy = true;
    const slice = async () => {
      if (this.matrix.work()) {
        setTimeout(slice, 0);
        return;
      }
      if (!this.scanning) {
        const here = this.queue.findIndex(
          ([part, b, h]) => part === this.part && b === this.row && this.heads.includes(h),
        );
        const next = this.queue.splice(Math.max(0, here), 1)[0];
        if (!next) {
          this.busy = false;
          return;
        }
        const [part, b, h] = next;
        await part.prepare(b, h, () => part === this.part && this.redraw());
        this.scanning = { part, b, h, steps: part.scanning(b, h) };
      }
      const { part, b, h, steps } = this.scanning,
        until = performance.now() + 12;
      let next = steps.next();
      while (!next.done && performance.now() < until) next = steps.next();
      if (next.done) {
        part.scans.set(b * part.H + h, next.value);
        this.scanning = null;
        if (b === Math.min(this.row, part.B - 1)) this.overview.draw(part, h);
        if (part === this.part && this.sums()) this.refresh();
      }
      setTimeout(slice, 0);
    };
    setTimeout(slice, 0);
  }

  _timeline() {
    const { prompt } = this.part.meta,
      host = document.getElementById("timeline");
    host.hidden = prompt === null;
    if (prompt === null) return;
    const slider = document.getElementById("time");
    [slider.min, slider.max, slider.value] = [0, this.rows.length - 1, this.query];
    const token = this.rows.start(this.query);
    document.getElementById("time-name").textContent =
      token < prompt ? `prompt, token ${token}` : `generated token ${token - prompt + 1} of ${this.part.T - prompt}`;
  }

  play() {
    const button = document.getElementById("play");
    if (this.playing) {
      clearInterval(this.playing);
      this.playing = null;
      button.textContent = "Play";
      return;
    }
    button.textContent = "Pause";
    if (this.query === this.rows.length - 1) this.go(this.rows.of(this.part.meta.prompt), this.key);
    this.playing = setInterval(() => {
      if (this.query >= this.rows.length - 1) this.play();
      else this.go(this.query + 1, this.key);
    }, 700);
  }

  tab(name) {
    for (const tab of ["map", "steps"]) {
      document.getElementById(`${tab}-panel`).hidden = tab !== name;
      document.getElementById(`${tab}-tab`).setAttribute("aria-selected", String(tab === name));
      document.getElementById(`${tab}-tab`).tabIndex = tab === name ? 0 : -1;
    }
    document.getElementById("tabs").hidden = !this.part.meta.steps;
    this.redraw();
  }

  repaint() {
    this.version++;
    this.overview.drawAll();
    if (this.part.meta.steps) this.steps.update();
    this.refresh();
  }

  setHow(how) {
    this.how = how;
    this.changed(false);
    this._describe();
  }

  setWords(words) {
    this.words = words;
    document.getElementById("words").checked = words;
    this.changed(false);
  }

  setTheme() {
    document.documentElement.dataset.theme = this.dark ? "light" : "dark";
    this.repaint();
  }
}

// A translation is looked at for its alignment: the last of its cross-attentions.  All else begins at its beginning.
function opening(parts) {
  return Math.max(
    0,
    parts.findLastIndex(({ meta }) => meta.name === "cross"),
  );
}

const app = new App(JSON.parse(document.getElementById("meta").textContent));
window.overt = app;
app.ready = app
  .start()
  .then(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))))
  .then(() => performance.mark("ready"));
