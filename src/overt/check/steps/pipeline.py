"""The steps between scores and weights, each told from the numbers before and after it, and the mistakes of each.

A step is a map from a matrix rows × keys to another.  Which it is, is measured; the name of the operation only says
where a random or a data-dependent number comes from.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from overt.recorder.core import Core
from overt.recorder.edges import EDGES
from overt.recorder.flow import close, constant_ratio
from overt.recorder.operations import Operation

# What adds, or puts in, numbers from elsewhere.
_ADDS = {
    "add", "iadd", "radd", "sub", "isub", "subtract", "rsub", "where", "select_n", "masked_fill", "setitem", "add_any",
    "select", "logical_and", "index_put", "baddbmm",
}  # fmt: skip
_RANDOM = {"dropout", "dropout_", "native_dropout", "feature_dropout", "alpha_dropout"}
# A score as low as this was put there to hide: exp of it is nothing beside any other.
LOW = -60.0
# What is made of weights that are returned, or of their logarithms, as if they mixed values.
GIVEN = ("returned", "logarithms", "kept back")
_NONE = np.zeros((0, 0), bool)
# Numbers of an array that are shown.
_SHOWN = 6


class Kind(NamedTuple):
    """What a step is: its name, the number or the cells that belong to it."""

    name: str
    number: float = 0.0
    cells: np.ndarray = _NONE
    detail: str = ""


def near(x: np.ndarray, y: np.ndarray, tolerance: float = 1e-5) -> bool:
    """Whether two arrays are equal but for rounding; NaN equals NaN only where not all are NaN."""
    alike = x.shape == y.shape and close(x, y, tolerance, tolerance * 1e-3)
    return alike and not (x.size and np.isnan(x).all())


def permuted(x: np.ndarray, y: np.ndarray, absolute: float = 1e-8) -> bool:
    """Whether two arrays have the same magnitudes, in whatever order."""
    if x.size != y.size:
        return False
    x, y = np.abs(x).ravel(), np.abs(y).ravel()
    # Sums tell most apart, and need no order.
    if abs(float(x.sum(dtype=float)) - (total := float(y.sum(dtype=float)))) > 1e-4 * total + absolute * y.size:
        return False
    return close(np.sort(x), np.sort(y), 1e-4, absolute)


def constant(x: np.ndarray, axis: int | None = None, tolerance: float = 1e-6) -> bool:
    """Whether the numbers, or those along an axis, are all one; NaN aside."""
    with np.errstate(all="ignore"):
        low, high = np.fmin.reduce(x, axis=axis), np.fmax.reduce(x, axis=axis)
        if x.dtype == bool:
            return bool((low == high).all())
        return bool(np.all((high - low <= tolerance * (1 + np.abs(high))) | np.isnan(high)))


def classify(x: np.ndarray, y: np.ndarray, operation: Operation, dependent: bool) -> Kind:
    """What turned x into y.  dependent: whether another operand depends on the arguments' data."""
    with np.errstate(all="ignore"):
        return _classify(x.astype(float), y.astype(float), operation, dependent)


def _classify(x: np.ndarray, y: np.ndarray, operation: Operation, dependent: bool) -> Kind:
    if near(x, y, 1e-6) or np.array_equal(x, y, equal_nan=True) or x.shape[1] < 2:
        return Kind("same")
    finite = np.isfinite(x) & np.isfinite(y)
    if not finite.any():
        # A block of keys that nobody sees.
        if np.isneginf(y).all() and np.isfinite(x).any():
            return Kind("mask", cells=np.isfinite(x))
        return Kind("exp") if np.isneginf(x).all() and not y.any() else Kind("unknown", detail=operation.name)
    if _is_softmax(x, y):
        return Kind("softmax")
    if finite.all() and few_bits(y):
        # Kept with fewer digits.
        for name, exact in (("same", x), ("softmax", softmax(x, (1,)))):
            if np.allclose(exact, y, rtol=2**-6, atol=2**-9) and not few_bits(exact):
                return Kind(name, detail="rounded")
    # What is hidden already is too large for what is done to the rest to show.
    live = finite & (x > LOW)
    known = live & (np.abs(x) > 1e-12)
    ratio = np.where(known, y / np.where(known, x, 1), np.nan)
    gap = np.where(live, y - x, np.nan)
    # As a share of the largest number, or what is small would be shifted by whatever is done to it.
    share = gap / (max(np.abs(x[live]).max(initial=0), np.abs(y[live]).max(initial=0)) or 1.0)
    ones = np.abs(np.nansum(y, 1) - 1) < 1e-4
    hidden = _hidden(x, y, finite)
    if operation.name in _RANDOM:
        hidden = np.zeros_like(hidden)
    elif hidden.any() and near(x[~hidden & finite], y[~hidden & finite]):
        return Kind("mask_sign_inf" if (y[hidden] > 0).any() else "mask", cells=hidden)
    for name, function in (("exp", np.exp), ("exp2", np.exp2), ("tanh", np.tanh)):
        if near(y[finite], function(x[finite])) and (name == "tanh" or (y >= 0).all()):
            return Kind(name)
    if not live.any():
        # Of what is hidden all together nothing but a shift of each row is seen.
        return Kind("shift" if constant(y - x, 1) else "unknown", detail="row")
    if constant(share):
        # By nothing but rounding; and of one row alone nobody knows whether others are shifted by its number.
        rows = live.any(1).sum() > 1 or len(x) == 1
        return Kind("same") if np.nanmax(np.abs(share)) <= 1e-6 else Kind("shift", detail="all" if rows else "row")
    gone = (y == 0).all(1) & (x != 0).any(1)
    if gone.any() and not gone.all() and near(x[~gone], y[~gone]):
        # Rows that see nothing.
        return Kind("zero", 1.0, np.broadcast_to(gone[:, None], x.shape))
    # Rows of one number are shifted by whatever is done to them.
    level = constant(x, 1) and np.ptp(x) > 0
    if constant(share, 1) and not level:
        return Kind("shift", detail="row")
    scaled = constant_ratio(x[live], y[live])
    # One row that is divided by its sum, the others being 0, is multiplied by a number too.
    alone = (y != 0).any(1).sum() == 1 and ones.any() and (x[finite] >= 0).all()
    if scaled is not None and not alone and (finite | (x == y)).all():
        return Kind("scale", scaled)
    if constant(gap, 1):
        return Kind("shift", detail="row")
    if (y[finite] >= 0).all() and ones.any() and (ones | ~finite.all(1) | (y == 0).all(1)).all():
        if (x[finite] >= 0).all() and constant(ratio, 1, 1e-4):
            return Kind("normalise")
        logs = np.where(finite & (y > 1e-30), np.log(np.where(y > 0, y, 1)) - x, np.nan)
        if constant(logs, 1, 1e-3):
            return Kind("softmax")
    zero = finite & (y == 0) & (x != 0)
    if zero.any():
        left = ratio[known & ~zero]
        if not left.size or constant(left, tolerance=1e-4):
            return Kind("zero", 1.0 if not left.size else float(np.median(left)), zero)
    changed = finite & ~np.isclose(x, y, rtol=1e-6, atol=1e-12)
    if finite.all() and 1 < changed.sum() < changed.size:
        value = float(y[changed][0])
        # Two cells may have the same number by chance, but no such one.
        if len(np.unique(y[changed])) == 1 and not (y >= 0).all() and (changed.sum() > 2 or abs(value) > -LOW):
            return Kind("fill", value, changed)
    if finite.all() and 2 < changed.sum() < changed.size:
        less = gap[changed & live]
        if less.size and constant(less) and less[0] < -2:
            return Kind("weak", float(less[0]), changed)
    if constant(ratio, 1, 1e-4) and (ratio[known] > 0).all() and not y[live & ~known].any():
        return Kind("rowscale")
    return _measured(x, y, operation, dependent, finite, gap)


def few_bits(x: np.ndarray) -> bool:
    """Whether numbers have the digits of half precision alone."""
    fractions = np.frexp(x)[0] * 2**11
    return x.size > 3 and bool((fractions == np.round(fractions)).all()) and len(np.unique(x)) > 2


def _is_softmax(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether rows of x became their softmax; rows that see nothing aside, which are 0 or NaN."""
    live = np.isfinite(x).any(1) & ~np.isposinf(x).any(1) & ~np.isnan(x).any(1)
    rest = y[~live]
    quiet = bool((np.isnan(rest) | (rest == 0)).all())
    return bool(live.any()) and quiet and near(softmax(x[live], (1,)), y[live])


def _measured(
    x: np.ndarray, y: np.ndarray, operation: Operation, dependent: bool, finite: np.ndarray, gap: np.ndarray
) -> Kind:
    if operation.name in _ADDS:
        # Scores may be rounded, as those of float32 are.
        values = np.unique(np.round(gap[np.isfinite(gap)], 9 if operation.host.dtype == np.float64 else 4))
        if len(values) == 2 and values[0] * values[1] == 0 and abs(values.sum()) == 1:
            return Kind("add01")
        # A bias and a mask may be one.
        return Kind("term" if dependent else "bias", cells=_hidden(x, y, finite))
    order = np.argsort(x[finite])
    if operation.name not in ("mul", "multiply", "rmul", "imul") and (np.diff(y[finite][order]) >= -1e-9).all():
        return Kind("function", detail=operation.name)
    return Kind("unknown", detail=operation.name)


def _hidden(x: np.ndarray, y: np.ndarray, finite: np.ndarray) -> np.ndarray:
    """Cells that became infinite, or as low as no score is."""
    infinite = np.isfinite(x) & ~finite & ~np.isnan(y)
    low = finite & (y < LOW) & (y < x / 2 + LOW / 2.5)
    return np.asarray(infinite | low)


def softmax(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """The exponentials of x divided by their sum over axes."""
    with np.errstate(all="ignore"):
        powers = np.exp(x - np.max(x, axis=axes, keepdims=True))
        return np.asarray(powers / powers.sum(axis=axes, keepdims=True))


def _subsets(n: int) -> Iterator[tuple[int, ...]]:
    """Groups of axes, the last one alone first."""
    others = chain.from_iterable(combinations(range(n), k) for k in range(1, n + 1))
    return chain([(n - 1,)], (axes for axes in others if axes != (n - 1,)))


def softmax_mistake(core: Core, before: np.ndarray, after: np.ndarray) -> tuple[str | None, bool]:
    """Which softmax made ``after`` of the scores ``before``: (mistake, whether one is known); (None, True) is right.

    A softmax over something else whose weights are then divided by their sums over the keys is right: the queries, or
    the heads, compete (slot attention, Locatello et al. 2020, algorithm 1).
    """
    shape = (*core.shape, before.shape[1])
    x, y = before.reshape(shape), after.reshape(shape)
    labels = [a for axis, a in enumerate(core.mix.labels[0]) if axis not in core.key_axes]
    # A row that sees nothing, or holds infinities or NaN, as behind an earlier row that saw nothing, says nothing.
    live = np.isfinite(y) & ~(np.isneginf(x).all(-1, keepdims=True) | np.isnan(x).any(-1, keepdims=True))
    if not live.any():
        return None, False
    with np.errstate(all="ignore"):
        # Each row shifted by its own maximum, before something else is summed over.
        shifted = np.exp(x - x.max(-1, keepdims=True))
    for axes in _subsets(x.ndim):
        made = softmax(x, axes)
        if any(shape[a] == 1 for a in axes) and len(axes) > 1:
            continue
        with np.errstate(all="ignore"):
            of_shifted = shifted / shifted.sum(axis=axes, keepdims=True)
        if not any(np.allclose(z[live], y[live], rtol=1e-4, atol=1e-9, equal_nan=True) for z in (made, of_shifted)):
            with np.errstate(all="ignore"):
                # Of those that were hidden in between there is no share.
                shared = np.where(y == 0, 0, made) / np.where(y == 0, 0, made).sum(-1, keepdims=True)
            if np.allclose(shared[live], y[live], rtol=1e-4, atol=1e-6, equal_nan=True):
                return None, True
            continue
        over = {labels[a] for a in axes if a < len(labels)}
        keys = x.ndim - 1 in axes
        if not over:
            return None, True
        mixed = core.operations[core.mix.number].detail not in GIVEN
        # Of the edges of a graph, rows are the nodes that these end at.
        queries = {*core.mix.rows, *(labels[:1] if core.operations[core.mix.number].detail == EDGES else ())}
        rows = bool(over & queries) and (mixed or any(_asks(core, a) for a in axes if a < len(labels)))
        if keys:
            # All that there is are samples, where none of it are queries.
            every = over == {a for a, length in zip(labels, shape, strict=False) if length > 1}
            return ("softmax_global" if rows or every else "softmax_heads_and_keys"), True
        return ("softmax_axis_q" if rows and len(over) == 1 else "softmax_axis_head_or_batch"), True
    # Samples and heads may be one axis, of which a softmax takes a part beside the keys.
    folded = [(a, n) for a, n in enumerate(core.shape) if a < len(labels) and labels[a] not in core.mix.rows]
    for a, part in ((a, part) for a, n in folded for part in range(2, n) if n % part == 0):
        parts = x.reshape(*shape[:a], shape[a] // part, part, *shape[a + 1 :])
        both = [softmax(parts, (axis, parts.ndim - 1)).reshape(shape) for axis in (a, a + 1)]
        if any(np.allclose(z[live], y[live], rtol=1e-4, atol=1e-9, equal_nan=True) for z in both):
            return "softmax_heads_and_keys", True
    with np.errstate(all="ignore"):
        if np.allclose(x / x.sum(-1, keepdims=True), y, rtol=1e-4, equal_nan=True):
            return "no_exp_norm", True
        share = np.where(live & (y > 0), y / softmax(x, (x.ndim - 1,)), np.nan)
        if constant(share, -1, 1e-4):
            share = np.fmax.reduce(share, axis=-1)  # NaN in rows that see nothing
            for top in (np.max(x, axis=-1), np.max(x)):
                for sign in (1, -1):
                    if np.allclose(share, np.exp(sign * top), rtol=1e-3):
                        return "softmax_partial_max", True
    return None, False


def _asks(core: Core, axis: int) -> bool:
    """Whether other queries lie along an axis of the weights, and not only other heads or samples."""
    if core.place is None:
        return True
    at = np.unravel_index(core.place.reshape(*core.shape, -1), core.scores.result.shape)
    labels = zip(core.scores.labels[2], at, strict=True)
    return any(a in core.scores.rows for a, c in labels if (c != c.take([0], axis)).any())


def scale_mistakes(found: float, width: int, heads: set[int], widths: set[int], lengths: set[int]) -> list[str]:
    """The mistakes that this scale may be, the likeliest first; "" where it is right and none where none is known.

    heads: numbers that may be that of heads; widths: those that may be that of all heads together; lengths: those of
    queries or keys.
    """

    def is_(wanted: float) -> bool:
        return abs(found / wanted - 1) < 2e-3

    if is_(width**-0.5):
        return [""]
    candidates: list[tuple[str, set[float]]] = [
        ("scale_missing", {1.0}),
        ("scale_dmodel", {n**-0.5 for n in widths}),
        ("scale_d", {1.0 / width}),
        ("scale_inverted", {float(width) ** 0.5, float(width)}),
        ("scale_num_heads", {n**-0.5 for n in heads if n > 1}),
        ("scale_seqlen", {n**-0.5 for n in lengths}),
    ]
    return [name for name, values in candidates if any(is_(v) for v in values)]


def shown(x: Any, y: Any) -> tuple[str, str]:
    """A few numbers of two things, to read, "" for None; of what begins alike, those from the first that differs on."""
    one, two = (None if z is None else np.asarray(z, float).reshape(-1) for z in (x, y))
    start = 0
    if one is not None and two is not None and one.size == two.size:
        unlike = np.flatnonzero(~np.isclose(one, two, 1e-3, 1e-4, equal_nan=True))
        start = int(unlike[0]) if unlike.size and unlike[0] >= _SHOWN else 0
    return "" if one is None else _few(one, start), "" if two is None else _few(two, start)


def _few(x: np.ndarray, start: int) -> str:
    text = np.array2string(
        x[start : start + _SHOWN], precision=4, suppress_small=True, separator=", ", max_line_width=200
    )
    return "… " * (start > 0) + str(text) + " …" * (x.size > start + _SHOWN)
