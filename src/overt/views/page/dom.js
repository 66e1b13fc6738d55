// Elements of the page.

/** @import { Elements } from "./types.js" */

/**
 * The element of the page that has this name.
 * @template {string} I
 * @param {I} id
 * @returns {I extends keyof Elements ? Elements[I] : HTMLElement}
 */
export const byId = (id) => /** @type {any} */ (document.getElementById(id));

/** What attributes may be: what begins with "on" listens, null and false are no attributes.
 * @typedef {Record<string, string | number | boolean | null | ((event: any) => void)>} Attributes
 */

/**
 * A new element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Attributes} attributes
 * @param {...(Node | string | null)} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(tag, attributes = {}, ...children) {
  return dressed(document.createElement(tag), attributes, children);
}

/**
 * The same within a drawing that is there.
 * @param {SVGElement} svg
 * @param {string} tag
 * @param {Attributes} attributes
 * @param {...(Node | string | null)} children
 */
export function drawn(svg, tag, attributes = {}, ...children) {
  return dressed(document.createElementNS(svg.namespaceURI, tag), attributes, children);
}

/** What draws on a canvas. @param {HTMLCanvasElement} canvas @returns {CanvasRenderingContext2D} */
export function contextOf(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser draws on no canvas");
  return context;
}

/**
 * @template {Element} E
 * @param {E} node
 * @param {Attributes} attributes
 * @param {(Node | string | null)[]} children
 */
function dressed(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") node.addEventListener(name.slice(2), value);
    else if (value !== null && value !== false) node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

/** A name as it is read: the mark that it begins a word is a small dot, and no black bar. @param {string} name */
export const legible = (name) => name.replace(/^[▁Ġ]/, "·");

/** A name that has room. @param {string} name */
export function shortened(name, most = 60) {
  name = legible(name);
  const letters = Array.from(name.slice(0, 4 * most));
  return letters.length > most || name.length > 4 * most ? `${letters.slice(0, most).join("")}…` : name;
}

/** A whole number with its thousands apart. @param {number} x */
export const counted = (x) => x.toLocaleString("en");
