// When things are done: once before the browser paints, or in slices while nobody waits.

import { byId } from "./dom.js";

// Milliseconds of a slice: an arrow key that comes in between waits no longer than this.
const SLICE = 12;

/** What takes long, a piece at a time; what a piece has to wait for is yielded as a promise.
 * @template T @typedef {Generator<Promise<unknown> | null, T, unknown>} Pieces
 */

export class Scheduler {
  /** @param {(slice: number) => Promise<true | null>} background what there is to do when all jobs are done; null at its end */
  constructor(background) {
    this.background = background;
    /** @type {Map<string, () => void>} */
    this.frames = new Map();
    /** @type {Map<string, {steps: Pieces<any>, done: (value: any) => void, waits: boolean}>} */
    this.jobs = new Map();
    this.busy = false;
  }

  /** Do something before the browser paints next, once however often it is asked for. @param {string} name @param {() => void} act */
  frame(name, act) {
    if (!this.frames.size) requestAnimationFrame(() => this._frame());
    this.frames.set(name, act);
  }

  _frame() {
    const acts = [...this.frames];
    this.frames.clear();
    for (const [name, act] of acts) this.attempt(act, () => this.frame(name, act));
    this.wake();
  }

  /**
   * Do something that takes long in slices; a new job takes the place of an old one of its name.
   * @template T
   * @param {string} name
   * @param {Pieces<T>} steps
   * @param {(value: T) => void} done
   */
  job(name, steps, done) {
    this.jobs.set(name, { steps, done, waits: false });
    this.wake();
  }

  /**
   * Do what needs cells.  Those computed elsewhere are thrown as a promise until they are here: then `again`.
   * @param {() => unknown} act
   */
  attempt(act, again = () => this.attempt(act)) {
    try {
      act();
    } catch (cells) {
      if (!(cells instanceof Promise)) throw cells;
      cells.then(again, ({ message }) => (byId("status").textContent = message));
    }
  }

  /** Go on with what nobody waits for. */
  wake() {
    if (this.busy) return;
    this.busy = true;
    setTimeout(() => this._slice(), 0);
  }

  async _slice() {
    const until = performance.now() + SLICE;
    const ready = () => [...this.jobs].filter(([, job]) => !job.waits).at(-1);
    for (let one = ready(); one && performance.now() < until; one = ready()) {
      const [name, job] = one;
      this.attempt(
        () => {
          const next = job.steps.next();
          if (next.value instanceof Promise) {
            job.waits = true;
            throw next.value.finally(() => (job.waits = false));
          }
          if (!next.done) return;
          if (this.jobs.get(name) === job) this.jobs.delete(name);
          job.done(next.value);
        },
        () => this.wake(),
      );
    }
    if (ready() || (await this.background(SLICE)) !== null) setTimeout(() => this._slice(), 0);
    else this.busy = false;
  }
}

/**
 * Something that needs cells: those that are not here yet are yielded as a promise.
 * @template T
 * @param {() => T} act
 * @returns {Pieces<T>}
 */
export function* patiently(act) {
  for (;;)
    try {
      return act();
    } catch (cells) {
      if (!(cells instanceof Promise)) throw cells;
      yield cells;
    }
}

/** All steps at once; what has to be waited for is thrown. @template T @param {Pieces<T>} steps @returns {T} */
export function finished(steps) {
  for (;;) {
    const next = steps.next();
    if (next.done) return next.value;
    if (next.value instanceof Promise) throw next.value;
  }
}
