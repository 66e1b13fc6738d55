"""What was asked: every check, default and broadcast, once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import Any

import numpy as np

from overt.biases import Bias, Dense, as_bias
from overt.dropout import Dropout
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import (
    Array,
    Cells,
    Shape,
    brief,
    check_layout,
    device,
    dtype_name,
    host,
    is_float,
    is_number,
    kind,
    plain,
    shown,
    whole,
)
from overt.masks import Mask, as_mask
from overt.scores import Score, as_score

# What an int of the compiled module holds, and what it counts positions in, with room for a last block.
MOST_THREADS = 2**31 - 1
MOST_POSITIONS = 2**31 - 1 - 4096
_DTYPES = ("float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True, eq=False)
class Problem:
    """Attention to be computed, whole or one part of it.

    The arrays have exactly the axes q (B, H, T, D), k (B, G, S, D), v (B, G, S, E).  ``shape`` is the whole score
    matrix, and the ranges b, h, t, s say which part of it these arrays are.  ``outer`` are the axes of results before
    T, ``given`` the shapes of q, k and v as the caller had them, ``threads`` what the caller allows (0: the default).
    ``back`` makes of a result what the caller's own library holds, where these arrays are NumPy's view of its memory.
    """

    q: Array
    k: Array
    v: Array
    score: Score
    mask: Mask | None
    bias: Bias | None
    softcap: float | None
    sinks: Array | None
    dropout: Dropout | None
    threads: int
    outer: tuple[int, ...]
    given: tuple[tuple[int, ...], ...]
    shape: Shape
    b: range
    h: range
    t: range
    s: range
    back: Callable[[Array], Array] | None = None

    def __repr__(self) -> str:
        arrays = ", ".join(f"{name} {shape}" for name, shape in zip("qkv", self.given, strict=True))
        options = {name: getattr(self, name) for name in ("score", "mask", "bias", "softcap", "dropout")}
        if self.sinks is not None:
            options["sinks"] = brief(self.sinks)
        beside = "".join(f", {name}={value}" for name, value in options.items() if value is not None)
        return f"Problem({arrays}, {dtype_name(self.q)}{beside})"

    @staticmethod
    def of(
        q: Array,
        k: Array,
        v: Array,
        *,
        score: Score,
        mask: Mask | Array | None = None,
        bias: Bias | Array | None = None,
        softcap: float | None = None,
        sinks: Array | None = None,
        dropout: Dropout | None = None,
        num_threads: int | None = None,
    ) -> Problem:
        """Check and normalise what a caller gave; the axes are those of ``overt.attention``."""
        q, k, v = plain("q", q), plain("k", k), plain("v", v)
        xp = namespace(q=q, k=k, v=v)
        dtype = common_dtype(q=q, k=k, v=v)
        given = tuple(q.shape), tuple(k.shape), tuple(v.shape)
        batch, outer, (q, k, v) = _axes(xp, q, k, v)
        (_, H, T, Dq), (_, G, S, Dk) = q.shape, k.shape
        check_values(k, v)
        _check_positions("q", "T", T)
        _check_positions("k", "S", S)
        if H % G if G else H:
            raise ShapeError(
                f"q has {H} heads and k has {G}: the query heads must be a multiple of the key heads (axis -3)"
            )
        as_score(score).check(Dq, Dk)
        mask = as_mask(mask)
        if mask is not None and xp is np:
            mask = mask.on_host()
        shape = Shape(batch, H, T, S, None if mask is None else mask.packing)
        if mask is not None:
            mask.check(shape)
        bias = as_bias(bias, on_host=xp is np)
        if bias is not None:
            for term in bias.terms:
                if isinstance(term, Dense):
                    check_beside("bias", term.parameter, dtype)
            bias.check(shape)
        softcap = check_softcap(softcap)
        if sinks is not None:
            sinks = _check_sinks(xp, sinks, H, dtype, q)
        if dropout is not None and not isinstance(dropout, Dropout):
            raise DtypeError(f"dropout must be overt.dropout(rate, seed), not {shown(dropout)}")
        threads = 0 if num_threads is None else thread_count(num_threads)
        if xp is np and dropout is not None and not isinstance(dropout.seed, int):
            dropout = Dropout(dropout.rate, int(host("the dropout seed", dropout.seed)) % 2**64)
        ranges = range(shape.B), range(H), range(T), range(S)
        return Problem(q, k, v, score, mask, bias, softcap, sinks, dropout, threads, outer, given, shape, *ranges)

    @property
    def xp(self) -> Any:
        """The array library."""
        return np if type(self.q) is np.ndarray else namespace(q=self.q)

    @property
    def accumulate(self) -> Any:
        """Dtype in which scores, softmax and sums are computed: float64 for float64, else float32."""
        # What is remembered takes a lock, longer than to look.
        if type(self.q) is np.ndarray:
            return np.float64 if self.q.dtype.char == "d" else np.float32
        return self._wide

    @cached_property
    def _wide(self) -> Any:
        return self.xp.float64 if dtype_name(self.q) == "float64" else self.xp.float32

    @property
    def whole(self) -> bool:
        """Whether this is all of the problem."""
        b, h, t, s = (len(part) for part in (self.b, self.h, self.t, self.s))
        return t == self.shape.T and s == self.shape.S and h == self.shape.H and b == self.shape.B

    @property
    def cells(self) -> Cells:
        """The cells of this part, as index arrays that broadcast to (B, H, T, S)."""
        b, h, t, s = (np.arange(r.start, r.stop, r.step) for r in (self.b, self.h, self.t, self.s))
        return Cells(self.shape, b[:, None, None, None], h[:, None, None], t[:, None], s)

    def beside(self, values: Array) -> Array:
        """Values, or a tuple of them, in the library, on the device and in the dtype of the scores."""
        if isinstance(values, tuple):
            return tuple(self.beside(some) for some in values)
        return self.xp.astype(like(self.xp, values, self.q), self.accumulate)

    def heads(self, x: Array) -> Array:
        """Repeat key heads so that query head h finds its own: (B, G, …) → (B, H, …)."""
        H, G = self.q.shape[1], x.shape[1]
        return x if H == G else self.xp.repeat(x, H // G, axis=1)

    def ungroup(self, x: Array) -> Array:
        """Sum what query heads give to the key head that they share: (B, H, …) → (B, G, …)."""
        (B, H), G = x.shape[:2], self.k.shape[1]
        return x if H == G else self.xp.sum(self.xp.reshape(x, (B, G, H // G, *x.shape[2:])), axis=2)

    def outward(self, x: Array) -> Array:
        """Give a result (B, H, …) the leading axes that the caller's arrays had."""
        if type(x) is np.ndarray and x.shape[:2] == self.outer:
            return self.handed(x)
        return self.handed(self.xp.reshape(x, (*self.outer, *x.shape[2:])))

    def handed(self, x: Array) -> Array:
        """A result in the caller's library."""
        return x if self.back is None else self.back(x)

    def inward(self, x: Array) -> Array:
        """Give a caller's array (…, H, T, E) the axes of results, (B, H, T, E)."""
        return self.xp.reshape(x, (self.shape.B, self.shape.H, *x.shape[-2:]))

    def unbroadcast(self, x: Array, shape: tuple[int, ...]) -> Array:
        """Sum a gradient (B, …) over the leading axes along which an argument of this shape was broadcast."""
        if type(x) is np.ndarray and x.shape == shape:
            return x
        leading = shape[:-3]
        if leading == self.shape.batch:
            return self.xp.reshape(x, shape)
        wide = self.xp.reshape(x, (*self.shape.batch, *x.shape[1:]))
        new = len(self.shape.batch) - len(leading)
        spread = tuple(i for i, n in enumerate(self.shape.batch) if i < new or (leading[i - new] == 1 and n != 1))
        return self.xp.reshape(self.xp.sum(wide, axis=spread) if spread else wide, shape)

    def part(
        self, b: range | None = None, h: range | None = None, t: range | None = None, s: range | None = None
    ) -> Problem:
        """The sub-problem of these ranges, in whole-problem indices."""
        b, h, t, s = (
            new if new is not None else old for new, old in ((b, self.b), (h, self.h), (t, self.t), (s, self.s))
        )
        rows, keys = within(b, self.b), within(s, self.s)
        k, v = (self._take_heads(x, self._key_heads(h)) for x in (self.k, self.v))
        return replace(
            self,
            q=self.q[rows, within(h, self.h), within(t, self.t), :],
            k=k[rows, :, keys, :],
            v=v[rows, :, keys, :],
            sinks=None if self.sinks is None else self.sinks[within(h, self.h)],
            b=b,
            h=h,
            t=t,
            s=s,
        )

    @property
    def sharing(self) -> int:
        """Query heads of the whole that read the same key head."""
        k = self.given[1]
        return self.shape.H // max(k[-3] if len(k) > 2 else 1, 1)

    def _key_heads(self, h: range) -> slice | list[int]:
        """Which heads of k and v these query heads read, as many each; heads that share them unevenly get one each."""
        if h == self.h or not h:
            return slice(len(h))
        each = self.q.shape[1] // max(self.k.shape[1], 1)
        of_each = [self.h.index(head) // each for head in h]
        distinct = sorted(set(of_each))
        shared = [group for group in distinct for _ in range(len(of_each) // len(distinct))]
        found = distinct if of_each == shared else of_each
        if found == list(range(found[0], found[-1] + 1)):
            return slice(found[0], found[-1] + 1)
        return found

    def _take_heads(self, x: Array, heads: slice | list[int]) -> Array:
        if isinstance(heads, slice):
            return x[:, heads, :, :]
        return self.xp.take(x, self.xp.asarray(heads, device=device(self.q)), axis=1)


def thread_count(count: int) -> int:
    """Check a number of threads.  As many are used as there are tasks and as can be had."""
    count = whole("the number of threads", count)
    if not 1 <= count <= MOST_THREADS:
        raise ArgumentError(
            f"the number of threads must be at least 1 and at most {MOST_THREADS}, or None for the default, not {count}"
        )
    return count


def within(part: range, whole: range) -> slice:
    """Where a part lies in arrays that hold ``whole``."""
    start, step = (part.start - whole.start) // whole.step, max(part.step // whole.step, 1)
    return slice(start, start + len(part) * step, step)


def _check_positions(name: str, axis: str, length: Any) -> None:
    # Of a size that is known: torch traces with symbols.
    if isinstance(length, int) and length > MOST_POSITIONS:
        raise ShapeError(
            f"{name} has {length} positions (axis -2, {axis}), and one call takes {MOST_POSITIONS} at most: "
            "divide them (overt.merge joins what is said about keys in parts)"
        )


def check_softcap(softcap: Any) -> float | None:
    """A positive number, or None for no cap."""
    if softcap is None:
        return None
    # Python's integers know no end.
    cap = float(max(min(softcap, 2**100), -1) if isinstance(softcap, int) else softcap) if is_number(softcap) else 0.0
    if not 0 < cap < float("inf"):
        raise ArgumentError(f"softcap must be a positive number, or None for no cap, not {shown(softcap)}")
    # Beyond these a cap is as good as none or as no score at all, and float32 has no room for more.
    return min(max(cap, 1e-30), 1e30)


def check_values(k: Array, v: Array) -> None:
    """Raise unless v (…, G, S, E) has a row for each key of k (…, G, S, D); both may lack the axis of heads."""
    if v.shape[-2] != k.shape[-2]:
        raise ShapeError(
            f"v has {v.shape[-2]} positions but k has {k.shape[-2]}: give v one row per key (axis -2 of k and v)"
        )
    if v.shape[-3:-2] != k.shape[-3:-2]:
        G, Gv = ((*x.shape[-3:-2], "no")[0] for x in (k, v))
        raise ShapeError(f"v has {Gv} heads but k has {G}: give v one head per key head (axis -3 of k and v)")


def namespace(**arrays: Array) -> Any:
    """The array library that all these named arrays share."""
    if {*map(type, arrays.values())} == {np.ndarray}:
        return np
    from array_api_compat import array_namespace, is_array_api_obj

    for name, x in arrays.items():
        if not is_array_api_obj(x):
            raise DtypeError(f"{name} is {kind(x)}, not an array: convert it with numpy.asarray({name})")
        check_layout(name, x)
    try:
        return array_namespace(*arrays.values())
    except TypeError:
        kinds = ", ".join(f"{name} {type(x).__module__}.{type(x).__name__}" for name, x in arrays.items())
        raise DtypeError(f"arrays must come from one library, not {kinds}") from None


def common_dtype(**arrays: Array) -> str:
    """The dtype that all these named arrays share."""
    x, *others = arrays.values()
    first, dtype = dtype_name(x), x.dtype
    for other in others:
        if other.dtype != dtype and dtype_name(other) != first:
            break
    else:
        if first in _DTYPES:
            return first
    names = {name: dtype_name(x) for name, x in arrays.items()}
    for name, dtype in names.items():
        if dtype not in _DTYPES:
            raise DtypeError(
                f"{name} has dtype {dtype}; attention takes {', '.join(_DTYPES)}: convert {name} with astype"
            )
    raise DtypeError(f"{', '.join(f'{name} is {dtype}' for name, dtype in names.items())}: convert them to one dtype")


def _axes(xp: Any, q: Array, k: Array, v: Array) -> tuple[tuple[int, ...], tuple[int, ...], list[Array]]:
    """Leading axes, the outer axes of results, and the arrays with exactly four axes."""
    if q.ndim == k.ndim == v.ndim == 4 and q.shape[0] == k.shape[0] == v.shape[0]:
        return (q.shape[0],), tuple(q.shape[:2]), [q, k, v]
    if q.ndim == k.ndim == v.ndim == 3:
        return (), tuple(q.shape[:1]), [q[None, ...], k[None, ...], v[None, ...]]
    arrays = q, k, v
    for name, x, axes in zip("qkv", arrays, ("T, D", "S, D", "S, E"), strict=True):
        if x.ndim < 2:
            raise ShapeError(
                f"{name} has shape {tuple(x.shape)}: give at least ({axes}), in general (…, heads, {axes})"
            )
    flat = [x.ndim == 2 for x in arrays]
    if any(flat) and not all(flat):
        shapes = ", ".join(f"{name} {tuple(x.shape)}" for name, x in zip("qkv", arrays, strict=True))
        raise ShapeError(f"some arrays have a heads axis and some have none ({shapes}): give it to all or to none")
    if all(flat):
        return (), (), [x[None, None, ...] for x in arrays]
    try:
        batch = np.broadcast_shapes(*(tuple(x.shape[:-3]) for x in arrays))
    except ValueError:
        shapes = ", ".join(f"{name} {tuple(x.shape[:-3])}" for name, x in zip("qkv", arrays, strict=True))
        raise ShapeError(
            f"the leading (batch) axes do not broadcast together: {shapes}; make them equal or 1"
        ) from None
    B = prod(batch)
    wide = [xp.broadcast_to(x, (*batch, *x.shape[-3:])) for x in arrays]
    return batch, (*batch, q.shape[-3]), [xp.reshape(x, (B, *x.shape[-3:])) for x in wide]


def check_beside(name: str, values: Array, dtype: str) -> None:
    """Raise unless a bias or sinks have a dtype that may stand beside inputs of this one."""
    allowed = {dtype, "float64"} if dtype == "float64" else {dtype, "float32"}
    if dtype == "float64" or dtype_name(values) in allowed:
        return
    raise DtypeError(
        f"{name} is {dtype_name(values)} beside {dtype} inputs: convert it to {' or '.join(sorted(allowed))}"
    )


def _check_sinks(xp: Any, sinks: Array, H: int, dtype: str, q: Array) -> Array:
    sinks = plain("sinks", sinks)
    if not hasattr(sinks, "dtype") or not is_float(sinks):
        raise DtypeError("sinks must be an array of floats (H,), one logit per query head")
    if tuple(sinks.shape) != (H,):
        raise ShapeError(
            f"sinks have shape {tuple(sinks.shape)}, but q has {H} heads: give one logit per query head, ({H},)"
        )
    check_beside("sinks", sinks, dtype)
    return host("sinks", sinks) if xp is np else like(xp, sinks, q)


def like(xp: Any, values: Array, q: Array) -> Array:
    """Values beside q in q's library and on its device; what is there already passes through, gradients and all."""
    if not isinstance(values, np.ndarray):
        return values
    # Only NumPy knows bfloat16 as a type that somebody added to it, and byte orders other than the machine's own.
    known = values.dtype.newbyteorder("=") if values.dtype.kind in "biuf" else np.float32
    return xp.asarray(values.astype(known, copy=False), device=device(q))
