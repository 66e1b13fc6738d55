// Arrays out of the page: base64, deflated, bytes of equal place together.

/** @import { Numbers, Reference, TypedArray } from "./types.js" */

import { byId, element } from "./dom.js";

export const HALVES = new Float32Array(65536);
for (let i = 0; i < 65536; i++) {
  const sign = i >> 15 ? -1 : 1,
    exponent = (i >> 10) & 31,
    fraction = i & 1023;
  HALVES[i] =
    sign *
    (exponent === 0
      ? fraction * 2 ** -24
      : exponent === 31
        ? fraction
          ? NaN
          : Infinity
        : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

export const KINDS = {
  float16: Uint16Array,
  float32: Float32Array,
  float64: Float64Array,
  int32: Int32Array,
  uint8: Uint8Array,
};

// Base64 as bytes, in pieces where the browser has no quick way.
/** @param {string} text @returns {Uint8Array<ArrayBuffer>[]} */
function decoded(text) {
  if (Uint8Array.fromBase64) return [Uint8Array.fromBase64(text)];
  const pieces = [],
    step = 1 << 22;
  for (let start = 0; start < text.length; start += step) {
    const some = atob(text.slice(start, start + step)),
      bytes = new Uint8Array(some.length);
    for (let i = 0; i < some.length; i++) bytes[i] = some.charCodeAt(i);
    pieces.push(bytes);
  }
  return pieces;
}

/** @param {Reference} reference @returns {Promise<Numbers>} */
export async function unpacked(reference) {
  const { shape } = reference,
    half = reference.dtype === "float16";
  if (reference.tiles) return { values: NONE, shape, half, tiles: new Tiles(reference, reference.tiles) };
  const script = byId(`a${reference.id}`),
    text = script.textContent ?? "";
  script.remove();
  // Halves stay as they are, two bytes each, and are looked up when they are used.
  return { values: await inflated(text, reference), shape, half, tiles: null };
}

/** Numbers from their text. @param {string} text @param {Reference} reference @returns {Promise<TypedArray>} */
export async function inflated(text, reference) {
  const pieces = decoded(text);
  const stream = new Blob(pieces).stream().pipeThrough(new DecompressionStream("deflate"));
  const planes = new Uint8Array(await new Response(stream).arrayBuffer());
  const Kind = KINDS[reference.dtype],
    size = Kind.BYTES_PER_ELEMENT,
    count = planes.length / size;
  const bytes = new Uint8Array(planes.length);
  for (let place = 0; place < size; place++) {
    const plane = planes.subarray(place * count, (place + 1) * count);
    for (let i = 0, at = place; i < count; i++, at += size) bytes[at] = plane[i];
  }
  const values = new Kind(bytes.buffer);
  if (reference.delta) for (let i = 1; i < count; i++) values[i] += values[i - 1];
  return values;
}

const NONE = new Float64Array(0);

/**
 * Numbers from `start` on as doubles.
 * @template {Float32Array | Float64Array} I
 * @param {Numbers} array
 * @param {number} start
 * @param {number} count
 * @param {I} into
 */
export function loaded(array, start, count, into) {
  const { tiles, half } = array;
  if (tiles) {
    for (let from = start, to; from < start + count; from = to) {
      const values = tiles.of(from);
      to = Math.min(start + count, (Math.floor(from / tiles.size) + 1) * tiles.size);
      for (let i = from, j = from % tiles.size; i < to; i++, j++) into[i - start] = half ? HALVES[values[j]] : values[j];
    }
    return into;
  }
  const { values } = array;
  if (half) for (let i = 0; i < count; i++) into[i] = HALVES[values[start + i]];
  else for (let i = 0; i < count; i++) into[i] = values[start + i];
  return into;
}

/** One number, of those that are halves too. @param {Numbers} array @param {number} i */
export const numberAt = (array, i) => loaded(array, i, 1, ONE)[0];
const ONE = new Float64Array(1);

// Tiles that are kept, of all arrays: 2^18 numbers each.
const KEPT = 384;
/** By their files, the last that was used last. @type {Map<string, TypedArray | Promise<void>>} */
const known = new Map();
/** Who waits for the text of a file. @type {Map<string, (text: string) => void>} */
const awaited = new Map();
// Scripts are the one thing that a page from a folder may read there; these say nothing but numbers.
Object.assign(window, { overtTile: (/** @type {string} */ name, /** @type {string} */ text) => awaited.get(name)?.(text) });
/** Addresses of scripts as the browser wants them. @typedef {{createScriptURL: (url: string) => string}} Policy */
/** @returns {Policy} */
const policy = () =>
  /** @type {any} */ (window).trustedTypes?.createPolicy("overt", {
    createScriptURL: (/** @type {string} */ url) => {
      if (!/^[^/\\:?#]+\/[a-z0-9]+-[0-9]+\.js$/.test(url)) throw new TypeError("no tile");
      return url;
    },
  }) ?? { createScriptURL: (/** @type {string} */ url) => url };
/** @type {Policy | undefined} */
let made;

/** An array that lies in files beside the page, `size` numbers each. */
export class Tiles {
  /** @param {Reference} reference @param {NonNullable<Reference["tiles"]>} where */
  constructor(reference, where) {
    this.reference = reference;
    this.where = where;
    this.size = where.size;
    this.length = reference.shape.reduce((a, b) => a * b, 1);
  }

  /** The tile that holds a number; the promise of it is thrown until it is here. @param {number} i @returns {TypedArray} */
  of(i) {
    const name = `${this.where.name}-${Math.floor(i / this.size)}`,
      found = known.get(name);
    if (found && !(found instanceof Promise)) {
      // Whatever was used last goes last.
      known.delete(name);
      known.set(name, found);
      return found;
    }
    throw found ?? this._fetch(name);
  }

  /** Make ready what `loaded` will be asked for. @param {number} start @param {number} count */
  async fetch(start, count) {
    for (let i = Math.floor(start / this.size) * this.size; i < start + count; i += this.size)
      for (;;)
        try {
          this.of(i);
          break;
        } catch (tile) {
          if (!(tile instanceof Promise)) throw tile;
          await tile;
        }
  }

  /** @param {string} name @returns {Promise<void>} */
  _fetch(name) {
    const promise = this._read(name).then(
      (values) => {
        known.set(name, values);
        const done = [...known].filter(([, tile]) => !(tile instanceof Promise));
        for (const [old] of done.slice(0, Math.max(0, done.length - KEPT))) known.delete(old);
      },
      (error) => {
        known.delete(name);
        throw error;
      },
    );
    known.set(name, promise);
    return promise;
  }

  /** @param {string} name */
  async _read(name) {
    const { folder } = this.where,
      script = element("script");
    const scripts = (made ??= policy());
    /** @type {string} */
    const text = await new Promise((resolve, reject) => {
      awaited.set(name, resolve);
      script.onerror = () => reject(new Error(`${folder}/${name}.js is not beside the page: keep the folder where the page is`));
      script.src = scripts.createScriptURL(`${folder}/${name}.js`);
      document.head.append(script);
    });
    awaited.delete(name);
    script.remove();
    return inflated(text, this.reference);
  }
}
