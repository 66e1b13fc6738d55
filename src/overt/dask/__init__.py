"""Attention of Dask arrays: chunks are computed where they are, and merge by their log-sum-exp.

Arrays may be chunked along all axes.  A task computes one pair of chunks, of queries and of keys, with its place in the
whole; pairs that the mask hides have none.  Nothing is computed before it is asked for, and everything is computed by
the scheduler that Dask has.
"""

from __future__ import annotations

from typing import Any, Unpack

from overt.errors import DependencyError

try:
    import dask.array as da
except ImportError:
    raise DependencyError("overt.dask needs Dask: pip install 'overt[dask]'") from None

from overt import parts
from overt.attention import Options
from overt.biases import Bias
from overt.dask.attended import Attended
from overt.dask.chunks import Chunks, as_dask, divided, undivided
from overt.dropout import Dropout
from overt.grid import Array
from overt.masks import Mask
from overt.scores import Score, scaled_dot

__all__ = ["Attended", "attend", "attention"]

_SCALED_DOT = scaled_dot()


def attention(
    q: da.Array, k: da.Array, v: da.Array, *, num_threads: int | None = 1, **options: Unpack[Options]
) -> da.Array:
    """``overt.attention`` for Dask arrays q (…, H, T, D), k (…, G, S, D), v (…, G, S, E) → (…, H, T, E), lazy.

    It is the output of ``attend``, and takes the same: score, mask, bias, softcap, sinks and dropout.
    """
    return attend(q, k, v, num_threads=num_threads, **options).output


def attend(
    q: da.Array,
    k: da.Array,
    v: da.Array,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Array | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    dropout: Dropout | None = None,
    num_threads: int | None = 1,
) -> Attended:
    """The same operation, kept open: output, lse, weights, received, entropy, top, map and gradient, as Dask arrays.

    Chunks of q (…, H, T, D), k (…, G, S, D) and v (…, G, S, E) may divide any of the leading axes, H, G, T and S;
    results have those of q along T.  The arguments are those of ``overt.attention``, and mean the same: masks, biases
    and dropout see positions in the whole.  Masks and biases may be Dask arrays themselves, of which nobody holds all;
    other parameters are NumPy arrays.  num_threads: of each task.

    A result is rounded to half types once, at the end.  Raises ShapeError, DtypeError or ArgumentError at once.
    """
    arrays = [as_dask(name, x) for name, x in zip("qkv", (q, k, v), strict=True)]
    undivided(score=score, bias=bias, sinks=sinks, dropout=dropout)
    options: Options = {"score": score, "softcap": softcap, "sinks": sinks, "dropout": dropout}
    held: dict[str, da.Array] = {}
    if isinstance(mask, da.Array):
        held["mask"] = as_dask("mask", mask)
    else:
        options["mask"] = mask
    structured, dense = divided(bias)
    held |= dense
    # What is wrong with a Dask array is said of an array of its shape and dtype.
    hollow: Any = {name: parts.hollow(x) for name, x in held.items()}
    for name, x in hollow.items():
        parts.asked(*map(parts.hollow, arrays), score=score, **{name.partition(" ")[0]: x})
    asked = parts.asked(*map(parts.hollow, arrays), bias=structured, num_threads=num_threads, **options)
    return Attended(Chunks.of(asked, arrays, held))
