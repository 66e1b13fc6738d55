"""Pieces of attention in float64, each right or wrong in a known way, for what is but a part of attention."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

# Errors of arrays in float32, relative to the largest number; and of sines.
_LOOSE, _ALIKE = 3e-5, 2e-4
_LAID = ("interleaved", "halves", "interleaved, cosine first", "halves, cosine first")
# Softmaxes that are none over the keys, by their mistakes; what tells forms of one apart stands behind a colon.
SOFTMAXES = (
    "softmax_axis_q",
    "softmax_axis_q:row max",
    "softmax_axis_head_or_batch:head",
    "softmax_axis_head_or_batch:batch",
    "softmax_heads_and_keys",
    "softmax_global",
    "softmax_global:all",
    "softmax_global:row max",
    "softmax_global:all, row max",
    "softmax_partial_max",
    "softmax_partial_max:denominator",
    "no_exp_norm",
    "softmax_missing",
)
MASKINGS = (
    "mask_inverted",
    "mask_bool_as_float",
    "mask_bool_as_float:drop",
    "mask_after_softmax",
    "mask_times_scores",
    "mask_sign_inf",
    "not_inplace",
    *(f"mask_fill_too_small:{fill}" for fill in (-1, -2, -5, -9, -10, -15, -20)),
    *(f"mask_fill_too_small:+{fill}" for fill in (-1, -2, -5, -9, -10, -15, -20)),
)


def softmaxes(B: int, H: int) -> tuple[str, ...]:
    """The mistakes that show in scores (B, H, T, S); with one head or one sample some are others, or none."""
    lost = {"softmax_axis_head_or_batch:head", "softmax_heads_and_keys"} if H == 1 else set()
    lost |= {"softmax_axis_head_or_batch:batch"} if B == 1 else set()
    return tuple(o for o in SOFTMAXES if o not in lost and (B > 1 or H > 1 or "softmax_global:all" not in o))


def softmax(scores: np.ndarray, how: str | None, axis: int = -1, *, top: str | None = None) -> np.ndarray:
    """Along one axis of (B, H, T, S), or wrong; ``top``: no maximum is subtracted, or that of all numbers."""
    axes: Any = {
        "softmax_axis_q": -2,
        "softmax_axis_q:row max": -2,
        "softmax_axis_head_or_batch:head": 1,
        "softmax_axis_head_or_batch:batch": 0,
        "softmax_heads_and_keys": (1, 3),
        "softmax_global": (-2, -1),
        "softmax_global:all": None,
        "softmax_global:row max": (-2, -1),
        "softmax_global:all, row max": None,
    }.get(how or "", axis)
    if how == "softmax_missing":
        return scores
    if how == "no_exp_norm":
        return scores / scores.sum(axis=axis, keepdims=True)
    most = scores.max(axis=None if top else -1 if how and how.endswith("row max") else axes, keepdims=True)
    with np.errstate(all="ignore"):
        powers = np.exp(scores - np.where(np.isfinite(most) & (top != "no_max"), most, 0))
        if how == "softmax_partial_max":
            return powers / np.exp(scores).sum(axis=axes, keepdims=True)
        if how == "softmax_partial_max:denominator":
            return np.exp(scores) / powers.sum(axis=axes, keepdims=True)
        return powers / powers.sum(axis=axes, keepdims=True)


def weights(scores: np.ndarray, keep: np.ndarray, masking: str | None = None, how: str | None = None) -> np.ndarray:
    """Weights of scores (B, H, T, S) where a mask that broadcasts to them says so; masking: how it is wrong."""
    keep = np.broadcast_to(keep, scores.shape)
    with np.errstate(all="ignore"):
        found = softmax(_masked(scores, keep, masking), how)
        return found * keep if masking == "mask_after_softmax" else found


def _masked(scores: np.ndarray, keep: np.ndarray, how: str | None) -> np.ndarray:
    if how in ("not_inplace", "mask_after_softmax"):
        return scores
    if how in ("mask_inverted", "mask_float_as_bool"):
        return np.where(keep, -np.inf, scores)
    if how == "mask_bool_as_float":
        return scores + keep
    if how == "mask_bool_as_float:drop":
        return scores + ~keep
    if how == "mask_times_scores":
        return scores * keep
    if how == "mask_sign_inf":
        return np.where(keep, scores, np.inf)
    if how and how.startswith("mask_fill_too_small"):
        text = how.partition(":")[2]
        amount = float(text.removeprefix("+"))
        return np.where(keep, scores, scores + amount if text.startswith("+") else amount)
    return np.where(keep, scores, -np.inf)


def slopes_of(H: int, how: str | None) -> np.ndarray:
    """Slopes (H,) of ALiBi."""
    first = 0 if how and "from 0" in how else 1

    def plain(n: int) -> np.ndarray:
        return 2.0 ** (-8.0 / n * np.arange(first, n + first))

    if (how and "formula" in how) or H & (H - 1) == 0:
        return plain(H)
    below = 1 << (H.bit_length() - 1)
    return np.concatenate([plain(below), plain(2 * below)[::2][: H - below]])


def frequencies(width: int, base: float = 10_000.0) -> np.ndarray:
    """Angular frequencies base^(−2i/width) of sinusoidal and rotary positions, (width/2,).  Vaswani et al. 2017."""
    return base ** (-np.arange(0, width, 2) / width)


def rotate(
    x: np.ndarray, points: np.ndarray, layout: str, how: str | None = None, base: float = 10_000.0
) -> np.ndarray:
    """Rotary embedding of x (…, T, D) at positions (T,); layout half or interleaved."""
    D = x.shape[-1]
    angles = points[:, None] * frequencies(D, base)
    spread = layout
    if how == "rope_layout:half rotation":
        layout, spread = "half", "interleaved"
    elif how == "rope_layout:interleaved rotation":
        layout, spread = "interleaved", "half"
    wide = np.repeat(angles, 2, axis=-1) if spread == "interleaved" else np.concatenate([angles, angles], axis=-1)
    if layout == "half":
        turned = np.concatenate([-x[..., D // 2 :], x[..., : D // 2]], axis=-1)
    else:
        turned = np.stack([-x[..., 1::2], x[..., ::2]], axis=-1).reshape(x.shape)
    return x * np.cos(wide) + turned * np.sin(wide)


def sinusoids(points: np.ndarray, width: int, bases: tuple[float, ...]) -> Iterator[tuple[str, np.ndarray]]:
    """Tables (n, width) of sines and cosines at positions (n,), each with its convention.  Vaswani et al. 2017, 3.5."""
    pairs = np.arange(width // 2)
    for how, start, (base, last) in product(_LAID, (0, 1, 2), product(bases, (False, True))):
        w = base ** (-pairs / max(width // 2 - 1, 1)) if last else frequencies(width, base)
        angles = (points[:, None] + start) * w
        parts = (np.cos(angles), np.sin(angles)) if "cosine first" in how else (np.sin(angles), np.cos(angles))
        table = np.concatenate(parts, -1) if "halves" in how else np.stack(parts, -1).reshape(len(points), width)
        more = ", last wavelength" if last else ""
        more += f", base {base:g}" if base != 10_000 else ""
        yield how + more + (f", from position {start}" if start else ""), table


def waves(table: np.ndarray) -> bool:
    """Whether each column of a table (n, width) of positions 0, 1 … is a sine or cosine of one frequency."""
    # At position 0 it is 0 or 1.
    first = np.minimum(np.abs(table[:1]), np.abs(table[:1] - 1))
    if len(table) <= 4 or not (first < _ALIKE).all() or np.ptp(table) <= 0.5:
        return False
    points = np.arange(len(table))[:, None]
    at = np.clip(table[1], -1, 1)
    tries = np.stack(
        [np.sin(points * np.arcsin(at)), np.sin(points * (np.pi - np.arcsin(at))), np.cos(points * np.arccos(at))]
    )
    return bool((np.abs(tries - table).max(1).min(0) < _ALIKE).all())


def every_second(H: int) -> np.ndarray:
    """Slopes of the next power of two, the odd ones first: what MPT takes where H is none."""
    n = 1 << (H - 1).bit_length()
    whole = slopes_of(n, None)
    return whole if n == H else np.concatenate([whole[1::2], whole[::2]])[:H]


def same(a: np.ndarray, b: np.ndarray, tolerance: float = _LOOSE) -> bool:
    """Whether two arrays agree in shape, axes of 1 aside, and in numbers, those that are not finite too."""
    a, b = bare(np.asarray(a, float)), bare(np.asarray(b, float))
    if a.shape != b.shape:
        return False
    with np.errstate(all="ignore"):
        finite = np.isfinite(b)
        if (np.isfinite(a) != finite).any():
            return False
        scale = max(float(np.abs(b[finite]).max(initial=0)), 1e-3)
        return not np.abs(a[finite] - b[finite]).max(initial=0) > tolerance * scale


def bare(a: np.ndarray) -> np.ndarray:
    """Without axes of 1."""
    return a.reshape([n for n in a.shape if n != 1])
