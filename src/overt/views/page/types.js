// What the modules of the page hand to each other: shapes of data alone, nothing that runs.

/** @import { LeftOut, Look, Difference } from "./look.js" */
/** @import { Tiles } from "./arrays.js" */

/** @typedef {"float16" | "float32" | "float64" | "int32" | "uint8"} Dtype */
/** @typedef {Uint16Array | Float32Array | Float64Array | Int32Array | Uint8Array} TypedArray */
/** Weights of a box, row after row. @typedef {Float32Array | Float64Array} Cells */

/** Where an array of the page is, and how it is packed. @typedef {object} Reference
 * @property {number} id
 * @property {Dtype} dtype
 * @property {number[]} shape
 * @property {boolean} delta differences of neighbours
 * @property {{folder: string, name: string, size: number}} [tiles] in files beside the page
 */

/** Numbers of any axes; halves as they are stored, two bytes each; those in tiles have no values here.
 * @typedef {{values: TypedArray, shape: number[], half: boolean, tiles: Tiles | null}} Numbers
 */

/** A small attention, to be computed again from edited numbers. @typedef {object} StepsMeta
 * @property {"dot" | "cosine" | "bilinear" | "additive"} kind
 * @property {number} scale
 * @property {number[] | null} sinks one for each head
 * @property {Record<string, any>} weights of the score, by name: vectors and matrices
 * @property {number[][][][]} q (B, H, T, D)
 * @property {number[][][][]} k (B, G, S, D)
 * @property {number[][][][]} v (B, G, S, E)
 */

/** One attention, as Python describes it; a remote one has no numbers. @typedef {object} PartMeta
 * @property {string} name
 * @property {number} layer
 * @property {string | null} source the text or model that it is of, where there are several
 * @property {number | null} prompt queries that were given
 * @property {number} B rows of the batch
 * @property {number} H heads
 * @property {number} G groups of heads that share a key
 * @property {number} T queries
 * @property {number} S keys
 * @property {number} A width of what a score is computed from
 * @property {string | null} mask in words
 * @property {number | null} keys which list of names
 * @property {number | null} queries
 * @property {StepsMeta | null} steps
 * @property {number} scale
 * @property {number | null} softcap
 * @property {Reference} q
 * @property {Reference} k
 * @property {Reference} lse
 * @property {Reference} first
 * @property {Reference} last
 * @property {Reference | null} maximum
 * @property {Reference | null} bits
 * @property {Reference | null} additive
 * @property {Reference} [overview]
 * @property {Reference} [received]
 * @property {Reference} [entropy]
 * @property {{kind: "alibi" | "distance" | "cells", numbers: Reference, offset: number[] | null} | null} bias
 * @property {boolean} [rounded]
 */

/** The numbers of an open attention. @typedef {object} Opened
 * @property {Numbers} q
 * @property {Numbers} k
 * @property {Numbers} lse
 * @property {Numbers} first
 * @property {Numbers} last
 * @property {Numbers | null} maximum
 * @property {Numbers | null} bits
 * @property {Numbers | null} additive
 * @property {Numbers | null} overview
 * @property {Numbers | null} received
 * @property {Numbers | null} entropy
 * @property {Numbers | null} bias
 */

/** What the page was made with. @typedef {object} Meta
 * @property {string} title
 * @property {boolean} remote
 * @property {boolean} steps whether it opens on them
 * @property {number[][]} stops of the light ramp
 * @property {string[][]} lists names of tokens
 * @property {PartMeta[]} parts
 */

/** What tells heads apart, each 0 to 1; null where no query can be asked.
 * @typedef {{entropy?: number | null, first?: number | null, previous?: number | null, induction?: number | null}} Like
 */

/** What a pass over a head found. @typedef {object} Scan
 * @property {number} rows of the overview
 * @property {number} columns
 * @property {Float32Array} largest weight of each bin
 * @property {Float64Array} received by each key
 * @property {Float64Array} entropy of each query
 * @property {Float64Array} seers queries that may look at a key
 * @property {Float64Array} seen keys that a query may look at
 * @property {boolean} rough whether keys should have been left out and could not
 * @property {Like} like
 */

/** An overview in bins. @typedef {{rows: number, columns: number, values: Float32Array, rough: boolean}} Coarse */
/** Units r0 ≤ r < r1 and c0 ≤ c < c1. @typedef {{r0: number, r1: number, c0: number, c1: number}} Box */
/** What a matrix may show. @typedef {Look | Difference} Shown */
/** @typedef {LeftOut | null} Left */
/** @typedef {"queries" | "keys"} Side */

/** Colours by what they are for, and ramps of 256 colours. @typedef {object} Theme
 * @property {string} ink
 * @property {string} soft
 * @property {string} masked
 * @property {string} hatch
 * @property {string} gap
 * @property {string} cursor
 * @property {string} band
 * @property {string} bar
 * @property {string} line
 * @property {Uint8Array} ramp
 * @property {Uint8Array} signed
 */

/** Elements of page.html that are more than any element is, by their names. @typedef {object} Elements
 * @property {HTMLScriptElement} meta
 * @property {HTMLInputElement} search
 * @property {HTMLInputElement} goto
 * @property {HTMLInputElement} words
 * @property {HTMLInputElement} time
 * @property {HTMLSelectElement} order
 * @property {HTMLSelectElement} how
 * @property {HTMLSelectElement} row
 * @property {HTMLSelectElement} scale
 * @property {HTMLSelectElement} left
 * @property {HTMLSelectElement} count
 * @property {HTMLSelectElement} second-part
 * @property {HTMLSelectElement} second-row
 * @property {HTMLSelectElement} second-head
 * @property {HTMLSelectElement} apart
 * @property {HTMLCanvasElement} matrix
 * @property {HTMLCanvasElement} minimap
 * @property {HTMLCanvasElement} first
 * @property {HTMLCanvasElement} second
 * @property {HTMLCanvasElement} difference
 * @property {SVGSVGElement} lines
 * @property {HTMLDialogElement} keys-help
 */

export {};
