// Arrays out of the page: base64, deflated, bytes of equal place together.

import { byId } from "./dom.js";

/** Numbers of any axes; halves as they are stored, two bytes each. @typedef {{values: any, shape: number[], half: boolean}} Numbers */

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

/** @param {any} reference @returns {Promise<Numbers>} */
export async function unpacked(reference) {
  const element = byId(`a${reference.id}`),
    pieces = decoded(element.textContent);
  element.remove();
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
  // Halves stay as they are, two bytes each, and are looked up when they are used.
  return { values, shape: reference.shape, half: reference.dtype === "float16" };
}

// Numbers from `start` on as doubles.
export function loaded(array, start, count, into) {
  const { values, half } = array;
  if (half) for (let i = 0; i < count; i++) into[i] = HALVES[values[start + i]];
  else for (let i = 0; i < count; i++) into[i] = values[start + i];
  return into;
}
