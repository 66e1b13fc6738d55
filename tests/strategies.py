"""Generated attention problems, shared by the tests.

A case draws its structure from hypothesis and its numbers from a seeded generator, which shrinks well and runs fast.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
from hypothesis import strategies as st

import overt
from overt.biases import Sum, as_bias
from overt.problem import Problem

DTYPES = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
}
# Around the widths of vectors, panels and blocks of rows.
WIDTHS = st.one_of(st.integers(0, 9), st.sampled_from([15, 16, 17, 31, 32, 33, 48, 64, 65, 80, 128]))
LENGTHS = st.one_of(st.integers(0, 9), st.sampled_from([11, 12, 13, 24, 31, 32, 33, 64, 65, 145]))
KEYS = st.one_of(LENGTHS, st.sampled_from([255, 256, 257, 511, 512, 513, 600]))


@dataclass
class Case:
    """One call of attention: the arrays, and everything else as keywords."""

    q: np.ndarray
    k: np.ndarray
    v: np.ndarray
    options: dict[str, Any] = field(default_factory=dict)

    def problem(self) -> Problem:
        return Problem.of(self.q, self.k, self.v, **{"score": overt.scaled_dot(), **self.options})

    def wide(self) -> Case:
        """The same case in float64: what the definition makes of exactly these numbers."""
        q, k, v = (x.astype(np.float64) for x in (self.q, self.k, self.v))
        return Case(q, k, v, {**self.options, "sinks": _wide(self.options.get("sinks"))})


def _wide(x: np.ndarray | None) -> np.ndarray | None:
    return None if x is None else x.astype(np.float64)


@st.composite
def cases(draw: st.DrawFn, dtypes: tuple[str, ...] = ("float32",), amplitudes: tuple[float, ...] = (1.0,)) -> Case:
    """Problems of every shape, mask, bias and score; q, k and v are each as large as one of the amplitudes says."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    dtype = DTYPES[draw(st.sampled_from(dtypes))]
    batch = draw(st.sampled_from([(), (1,), (2,), (3,), (2, 2)]))
    G = draw(st.integers(1, 3))
    H = G * draw(st.sampled_from([1, 1, 2, 4]))
    T, S, D, E = draw(LENGTHS), draw(KEYS), draw(WIDTHS), draw(WIDTHS)
    options: dict[str, Any] = {}

    score, Dk = draw(scores(rng, D))
    options["score"] = score
    q = _array(draw, rng, (*batch, H, T, D), dtype)
    k = _array(draw, rng, (*batch, G, S, Dk), dtype)
    v = _array(draw, rng, (*batch, G, S, E), dtype)
    if draw(st.booleans()):
        options["mask"] = draw(masks(rng, batch, H, T, S))
    if draw(st.booleans()):
        options["bias"] = draw(biases(rng, batch, H, T, S, dtype))
    options["softcap"] = draw(st.sampled_from([None, None, 2.0, 30.0]))
    if draw(st.booleans()):
        options["sinks"] = rng.normal(size=H).astype(dtype)
    if draw(st.integers(0, 3)) == 0:
        options["dropout"] = overt.dropout(
            draw(st.sampled_from([0.0, 0.1, 0.7])), draw(st.sampled_from([0, 2**64 - 1]))
        )
    if len(amplitudes) > 1:
        q, k, v = ((x.astype(float) * draw(st.sampled_from(amplitudes))).astype(dtype) for x in (q, k, v))
    return Case(q, k, v, options)


@st.composite
def scores(draw: st.DrawFn, rng: np.random.Generator, D: int) -> tuple[Any, int]:
    """A score for queries of width D, and the width that its keys have."""
    kind = draw(st.sampled_from(["scaled", "scaled", "dot", "cosine", "bilinear", "additive"]))
    if kind == "bilinear":
        Dk = draw(st.integers(1, 20))
        return overt.bilinear(rng.normal(size=(D, Dk)) / max(D * Dk, 1) ** 0.5), Dk
    if kind == "additive":
        A, Dk = draw(st.sampled_from([0, 1, 2, 5, 9, 16, 33])), draw(st.integers(1, 9))
        # The larger of these leaves the range in which exponentials may be multiplied.
        large = draw(st.sampled_from([1, 1, 8]))
        weights = (large * rng.normal(size=(A, width)) / max(width, 1) ** 0.5 for width in (D, Dk))
        bias = draw(st.sampled_from([None, rng.normal(size=A)]))
        return overt.additive(*weights, rng.normal(size=A) / max(A, 1) ** 0.5, bias), Dk
    if kind == "cosine":
        return overt.cosine(draw(st.sampled_from([1.0, 10.0]))), D
    if kind == "dot":
        return overt.scaled_dot(0.25), D
    return overt.scaled_dot(), D


@st.composite
def masks(
    draw: st.DrawFn, rng: np.random.Generator, batch: tuple[int, ...], H: int, T: int, S: int, depth: int = 2
) -> Any:
    """A mask, possibly composed of others."""
    kind = draw(st.integers(0, 9 if depth else 6))
    lengths = rng.integers(0, S + 1, size=batch)
    if kind == 0:
        return overt.causal(draw(st.sampled_from([None, 0, 3, -2])))
    if kind == 1:
        return overt.window(draw(st.integers(0, 40)), draw(st.integers(0, 5)))
    if kind == 2:
        return overt.padding(lengths)
    if kind == 3:
        return overt.prefix(lengths, lengths // 2)
    if kind == 4:
        ids = rng.integers(0, 3, size=(*batch, S))
        return overt.documents(np.sort(ids, axis=-1) if draw(st.booleans()) else ids)
    if kind == 5:
        axes = [draw(st.sampled_from([1, n])) for n in (*batch, H, T, S)]
        return overt.keep(rng.random(axes) < draw(st.sampled_from([0.05, 0.5, 0.95])))
    if kind == 6:
        step = draw(st.integers(2, 5))
        return overt.where(lambda b, h, t, s: (t + s + h + b) % step > 0)
    left = draw(masks(rng, batch, H, T, S, depth - 1))
    if kind == 7:
        return ~left
    right = draw(masks(rng, batch, H, T, S, depth - 1))
    return left & right if kind == 8 else left | right


@st.composite
def biases(
    draw: st.DrawFn, rng: np.random.Generator, batch: tuple[int, ...], H: int, T: int, S: int, dtype: np.dtype
) -> Any:
    """A dense, ALiBi or T5 bias, or a sum of two or three, in float32 or in the dtype of the inputs."""
    held = draw(st.sampled_from([np.dtype(np.float32), dtype]))
    terms = [draw(_terms(rng, batch, H, T, S, held)) for _ in range(draw(st.sampled_from([1, 1, 2, 3])))]
    return terms[0] if len(terms) == 1 else Sum(tuple(as_bias(term, on_host=True) for term in terms))


@st.composite
def _terms(
    draw: st.DrawFn, rng: np.random.Generator, batch: tuple[int, ...], H: int, T: int, S: int, held: np.dtype
) -> Any:
    # Only tables are added up before they are widened.
    kind = draw(st.sampled_from(["dense", "alibi", "relative", "relative"]))
    offset = draw(st.sampled_from([None, 0, 2]))
    if kind == "alibi":
        return overt.alibi(overt.positions.alibi_slopes(H).astype(held), offset)
    if kind == "relative":
        table = rng.normal(size=(8, H)).astype(held)
        return overt.relative(table, bidirectional=draw(st.booleans()), max_distance=20, offset=offset)
    axes = [draw(st.sampled_from([1, n])) for n in (*batch, H, T, S)]
    bias = rng.normal(size=axes).astype(held)
    # −∞ in a bias hides a key as a mask does.
    return np.where(rng.random(axes) < 0.1, np.array(-np.inf, held), bias)


def _array(draw: st.DrawFn, rng: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Normal numbers, laid out in one of the ways in which arrays reach a library."""
    layout = draw(st.sampled_from(["plain", "plain", "transposed", "reversed", "strided", "broadcast", "read-only"]))
    if layout == "transposed":
        return np.moveaxis(rng.normal(size=(*shape[:-3], shape[-2], shape[-3], shape[-1])).astype(dtype), -3, -2)
    if layout == "strided":
        return rng.normal(size=(*shape[:-1], 2 * shape[-1])).astype(dtype)[..., ::2]
    if layout == "broadcast":
        return np.broadcast_to(rng.normal(size=shape[-3:]).astype(dtype), shape)
    array = rng.normal(size=shape).astype(dtype)
    if layout == "reversed":
        return array[..., ::-1, ::-1]
    if layout == "read-only":
        array.flags.writeable = False
    return array


@st.composite
def large_cases(draw: st.DrawFn, dtypes: tuple[str, ...] = ("float32",)) -> Case:
    """Problems whose finite numbers reach to the ends of the range: logits, biases, sinks, scales and softcaps.

    No score, in the dtype in which it is computed, is itself beyond that range.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    name = draw(st.sampled_from(dtypes))
    dtype, wide = DTYPES[name], np.dtype(np.float64 if name == "float64" else np.float32)
    G = draw(st.sampled_from([1, 2]))
    H = G * draw(st.sampled_from([1, 2]))
    T, S = draw(st.sampled_from([1, 2, 9, 70, 130])), draw(st.sampled_from([1, 5, 40, 140, 600]))
    D, E = draw(st.sampled_from([1, 8, 24, 64])), draw(st.sampled_from([1, 8, 20]))
    # Products of any size: large queries with small keys, and the other way round.
    size = draw(st.sampled_from([0, 1e-3, 1, 30, 1e3, 1e5, 1e9, 1e15] if name != "float16" else [0, 1e-2, 1, 30, 100]))
    tilt = draw(st.sampled_from([1.0, 1e-12, 1e12] if name != "float16" else [1.0]))
    scale = draw(st.sampled_from([None, None, 1.0, -0.3, 4.0, 0.0, 1e-30, 1e30, 1e38]))
    q = rng.normal(size=(H, T, D)) * tilt
    k = rng.normal(size=(G, S, D)) * size / tilt
    if scale and abs(scale) > 10:
        # Otherwise scores leave the range, or keys.
        scale = scale if name != "float16" else 10.0
        k = k * min(1e18 / abs(scale), 1)
    # Kernels take what float32 has no normal number for as zeros.
    q, k = (np.where(np.abs(x) < np.finfo(np.float32).tiny, 0, x).astype(dtype) for x in (q, k))
    v = rng.normal(size=(G, S, E)).astype(dtype)
    options: dict[str, Any] = {"score": overt.scaled_dot(scale)}
    kind = draw(st.sampled_from(["product", "product", "product", "cosine", "bilinear"]))
    if kind == "cosine":
        options["score"] = overt.cosine(draw(st.sampled_from([1.0, 100.0, 1e30])))
    elif kind == "bilinear":
        options["score"] = overt.bilinear(rng.normal(size=(D, D)))
    if draw(st.booleans()):
        options["mask"] = draw(masks(rng, (), H, T, S))
    if draw(st.booleans()):
        bias = draw(large_biases(rng, H, T, S, wide))
        problem = Case(q, k, v, options).wide().problem()
        left, right, factor = problem.score.factors(np, problem.q, problem.heads(problem.k))
        room = np.finfo(np.float32).max - np.abs(left @ right.swapaxes(-1, -2) * factor).max(initial=0)
        options["bias"] = np.where(np.isfinite(bias), np.clip(bias, -room, room).astype(wide), bias)
    options["softcap"] = draw(st.sampled_from([None, None, 1e-30, 50.0, 1e5, 1e30]))
    if draw(st.booleans()):
        sink = draw(st.sampled_from([1.0, 1e5, -1e9, float(np.finfo(wide).min), float(np.finfo(np.float32).max)]))
        options["sinks"] = (sink * np.ones(H)).astype(wide)
    return Case(q, k, v, options)


@st.composite
def large_biases(draw: st.DrawFn, rng: np.random.Generator, H: int, T: int, S: int, dtype: np.dtype) -> np.ndarray:
    """Masks made of numbers, as libraries pass them, and numbers beside which differences of 1 nearly vanish."""
    ends = np.finfo(np.float32)
    large = draw(st.sampled_from([1e5, -1e4, -1e9, 1e9, 1e30, float(ends.min), float(ends.max), -np.inf]))
    bias = rng.normal(size=(draw(st.sampled_from([1, H])), T, S))
    where = draw(st.sampled_from(["rows", "cells", "columns", "all"]))
    some = {
        "rows": np.arange(T)[:, None] % 3 == 1,
        "cells": rng.random(bias.shape) < 0.5,
        "columns": np.arange(S) > S // 2,
        "all": True,
    }[where]
    with np.errstate(over="ignore"):
        found = np.where(some, large + np.round(bias), bias).astype(dtype)
    return np.clip(found, ends.min, ends.max) if np.isfinite(large) else found
