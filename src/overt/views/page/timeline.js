// The steps of a generation, one query each.

/** @import { App } from "./app.js" */

import { byId } from "./dom.js";

// Milliseconds of a step that is played.
const STEP = 700;

export class Timeline {
  /** @param {App} app */
  constructor(app) {
    this.app = app;
    /** @type {ReturnType<typeof setInterval> | null} */
    this.playing = null;
  }

  draw() {
    const { app } = this,
      { prompt } = app.part.meta;
    byId("timeline").hidden = prompt === null || app.tabName === "steps";
    if (prompt === null) return;
    const slider = byId("time"),
      token = app.rows.start(app.query);
    slider.min = "0";
    slider.max = String(app.rows.length - 1);
    slider.value = String(app.query);
    byId("time-name").textContent =
      token < prompt ? `prompt, token ${token}` : `generated token ${token - prompt + 1} of ${app.part.T - prompt}`;
  }

  /** Play, or stop playing. */
  play() {
    const { app } = this,
      button = byId("play");
    if (this.playing) {
      clearInterval(this.playing);
      this.playing = null;
      button.textContent = "Play";
      return;
    }
    button.textContent = "Pause";
    if (app.query === app.rows.length - 1) app.go(app.rows.of(app.part.meta.prompt ?? 0), app.key, "query");
    this.playing = setInterval(() => {
      if (app.query >= app.rows.length - 1) this.play();
      else app.go(app.query + 1, app.key, "query");
    }, STEP);
  }
}
