"""Attention, and what is built of it: the open result, the trace, merging and incremental decoding."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from overt import kernels
from overt.attended import Attended, engine
from overt.biases import Bias
from overt.dropout import Dropout
from overt.errors import ArgumentError, DtypeError, ShapeError
from overt.grid import Array, dtype_name, is_float
from overt.masks import Mask, causal
from overt.problem import Problem, namespace
from overt.scores import Score, scaled_dot
from overt.trace import Trace
from overt.trace import trace as trace_problem

_SCALED_DOT = scaled_dot()
_CAUSAL = causal()


def attention(
    q: Array,
    k: Array,
    v: Array,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Array | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    dropout: Dropout | None = None,
    num_threads: int | None = None,
) -> Array:
    """Mix the values that each query may see: softmax(q kᵀ/√D) v.

    q (…, H, T, D), k (…, G, S, D), v (…, G, S, E) → (…, H, T, E), in the dtype of q: float16, bfloat16, float32 or
    float64, the same for all three.  Leading axes broadcast; query head h reads key head h // (H/G); arrays (T, D),
    (S, D), (S, E) without a heads axis are one head.

    score: how a key answers a query, by default ``scaled_dot()``.
    mask: an overt mask or a boolean array that broadcasts to (…, H, T, S); True = may attend.
    bias: added to the scores after the softcap: an array that broadcasts to (…, H, T, S), ``alibi`` or ``relative``.
    softcap: scores become softcap · tanh(scores / softcap).
    sinks: (H,) logits that join the softmax's denominator and take no value.
    dropout: ``overt.dropout(rate, seed)``, for training.
    num_threads: for this call, by default what ``overt.set_num_threads`` says; no result depends on it.

    A query that may see no key gets zeros, and what stands behind a mask never reaches the output.
    Raises ShapeError, DtypeError or ArgumentError.  Vaswani et al. 2017 (arXiv:1706.03762), equation 1.
    """
    if score is _SCALED_DOT and bias is softcap is sinks is dropout is None:
        y = kernels.plain(q, k, v, mask, num_threads)
        if y is not None:
            return y
    problem = Problem.of(
        q,
        k,
        v,
        score=score,
        mask=mask,
        bias=bias,
        softcap=softcap,
        sinks=sinks,
        dropout=dropout,
        num_threads=num_threads,
    )
    return problem.outward(engine(problem).forward(problem)[0])


def attend(
    q: Array,
    k: Array,
    v: Array,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Array | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    dropout: Dropout | None = None,
    num_threads: int | None = None,
) -> Attended:
    """The same operation as ``attention``, kept open: output, lse, weights, received, entropy, top, map, gradient.

    On NumPy arrays received and entropy are mostly computed along with the output, for a tenth to a third of its time.
    """
    return Attended(
        Problem.of(
            q,
            k,
            v,
            score=score,
            mask=mask,
            bias=bias,
            softcap=softcap,
            sinks=sinks,
            dropout=dropout,
            num_threads=num_threads,
        )
    )


def trace(
    q: Array,
    k: Array,
    v: Array,
    *,
    score: Score = _SCALED_DOT,
    mask: Mask | Array | None = None,
    bias: Bias | Array | None = None,
    softcap: float | None = None,
    sinks: Array | None = None,
    dropout: Dropout | None = None,
) -> Trace:
    """Every intermediate of ``attention`` in order, each with its formula, axes, numbers, mean and variance.

    The steps, those that are asked for: query, key, what the score does to them, scores, scaled, capped, biased,
    masked, lse, weights, dropped, value, output.  Memory is quadratic: this is the definition, for reading.
    """
    return trace_problem(
        Problem.of(q, k, v, score=score, mask=mask, bias=bias, softcap=softcap, sinks=sinks, dropout=dropout)
    )


def merge(parts: Iterable[tuple[Array, Array]]) -> tuple[Array, Array]:
    """Attention over the union of disjoint key sets, from the output (…, T, E) and lse (…, T) of each.

    Gives (output, lse).  Sinks, if any, belong to one of the parts.  Raises ArgumentError for no parts and
    ShapeError for parts of different shapes.  Rabe & Staats 2021 (arXiv:2112.05682).
    """
    try:
        pairs = [(y, lse) for y, lse in parts]
    except (TypeError, ValueError):
        raise DtypeError("merge takes pairs (output, lse), such as (seen.output, seen.lse)") from None
    if not pairs:
        raise ArgumentError("merge got no parts: give at least one pair (output, lse)")
    arrays = {f"{name} {i}": x for i, pair in enumerate(pairs) for name, x in zip(("output", "lse"), pair, strict=True)}
    xp = namespace(**arrays)
    first, first_lse = pairs[0]
    for name, x in arrays.items():
        if not is_float(x):
            raise DtypeError(f"{name} is {dtype_name(x)}, not floats")
        shape = first.shape if name.startswith("output") else first.shape[:-1]
        if tuple(x.shape) != tuple(shape):
            raise ShapeError(
                f"{name} has shape {tuple(x.shape)}, but output 0 has {tuple(first.shape)}: give outputs of "
                f"one shape (…, T, E), each with its lse (…, T)"
            )
    wide = first_lse.dtype
    lses = xp.stack([xp.astype(lse, wide) for _, lse in pairs])
    top = xp.max(lses, axis=0)
    top = xp.where(xp.isfinite(top), top, xp.zeros_like(top))
    shares = xp.exp(lses - top)
    total = xp.sum(shares, axis=0)
    some = xp.where(total == 0, xp.ones_like(total), total)
    mixed = xp.zeros_like(xp.astype(first, wide))
    for i, (y, _) in enumerate(pairs):
        # What a part without keys says has no weight, whatever it is.
        said = shares[i, ..., None] > 0
        mixed = mixed + xp.where(said, xp.astype(y, wide) * (shares[i, ...] / some)[..., None], xp.zeros_like(mixed))
    lse = xp.where(total == 0, xp.zeros_like(total) - xp.inf, top + xp.log(some))
    return xp.astype(mixed, first.dtype), lse


class Cache:
    """Keys and values seen so far, for decoding step by step.

    ``append(k, v)`` adds positions k (…, G, N, D), v (…, G, N, E); ``attend(q)`` lets queries q (…, H, T, D), which
    stand at the last T positions, look at all of them.  The options are those of ``attention`` and hold for every
    step; the mask is causal unless another is given.  Storage grows by doubling.
    """

    def __init__(
        self,
        *,
        score: Score = _SCALED_DOT,
        mask: Mask | None = _CAUSAL,
        bias: Bias | None = None,
        softcap: float | None = None,
        sinks: Array | None = None,
    ) -> None:
        self._options: dict[str, Any] = {"score": score, "mask": mask, "bias": bias, "softcap": softcap, "sinks": sinks}
        self._k: np.ndarray | None = None
        self._v: np.ndarray | None = None
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def keys(self) -> np.ndarray:
        """(…, G, S, D) all keys so far, a read-only view."""
        return self._view(self._k, "keys")

    @property
    def values(self) -> np.ndarray:
        """(…, G, S, E) all values so far, a read-only view."""
        return self._view(self._v, "values")

    def append(self, k: np.ndarray, v: np.ndarray) -> None:
        """Add keys and values after the last position; what does not fit raises and leaves the cache as it was."""
        for name, new in (("k", k), ("v", v)):
            if not isinstance(new, np.ndarray):
                raise DtypeError(
                    f"{name} is a {type(new).__name__}, but a cache holds NumPy arrays: use numpy.asarray({name})"
                )
        Problem.of(k, k, v, score=_SCALED_DOT)
        for name, new, held in (("k", k, self._k), ("v", v, self._v)):
            if held is not None:
                if new.dtype != held.dtype:
                    raise DtypeError(
                        f"{name} is {new.dtype}, but the cache holds {held.dtype}: convert {name} with astype"
                    )
                if (*new.shape[:-2], new.shape[-1]) != (*held.shape[:-2], held.shape[-1]):
                    raise ShapeError(
                        f"{name} has shape {new.shape}, but the cache holds {self._view(held, name).shape}: "
                        "only the axis of positions (-2) may differ"
                    )
        self._k, self._v = self._grown(self._k, k), self._grown(self._v, v)
        self._length += k.shape[-2]

    def attend(self, q: np.ndarray) -> Attended:
        """Attention of the queries at the last T positions to everything so far."""
        return attend(q, self.keys, self.values, **self._options)

    def _grown(self, held: np.ndarray | None, new: np.ndarray) -> np.ndarray:
        end = self._length + new.shape[-2]
        if held is None or end > held.shape[-2]:
            grown = np.empty((*new.shape[:-2], 1 << max(end - 1, 15).bit_length(), new.shape[-1]), new.dtype)
            if held is not None:
                grown[..., : self._length, :] = held[..., : self._length, :]
            held = grown
        held[..., self._length : end, :] = new
        return held

    def _view(self, held: np.ndarray | None, name: str) -> np.ndarray:
        if held is None:
            raise ArgumentError(f"the cache holds no {name} yet: append(k, v) first")
        view = held[..., : self._length, :]
        view.flags.writeable = False
        return view
