"""What of a recording depends on what, and what of it only moves numbers."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import TYPE_CHECKING

import numpy as np

from overt.recorder.operations import Operation

if TYPE_CHECKING:
    from overt.recorder.products import Product

# What changes no number.
VIEWS = {
    "view", "reshape", "transpose", "permute", "t", "T", "mT", "expand", "unsqueeze", "squeeze", "clone", "index",
    "select", "contiguous", "view_as", "astype", "copy", "unbind", "split", "chunk", "swapaxes", "swapdims", "movedim",
    "moveaxis", "expand_dims", "flatten", "unflatten", "ravel", "array", "asarray", "ascontiguousarray", "to", "float",
    "double", "type_as", "type", "squeeze_", "broadcast_to", "broadcast_in_dim", "convert_element_type", "written",
    "expand_as", "reshape_as", "rollaxis", "H", "real", "atleast_2d", "atleast_3d", "tensor", "half", "bfloat16",
    "topk", "sort", "gather", "take_along_axis", "take_along_dim", "slice", "dynamic_slice", "rev", "flip",
}  # fmt: skip
# Of these, what may round: the lowest number of a wide type is infinite in a narrow one.
CASTS = {"to", "float", "double", "half", "bfloat16", "type", "type_as", "astype", "convert_element_type"}
# What takes numbers of its first operand at the places that its second says.
SAMPLES = {"grid_sample", "grid_sampler"}
# What takes numbers of its first operand, and at most the form, the type or the places of another.
_LIKE = {*CASTS, *SAMPLES, "expand_as", "view_as", "reshape_as"}
# What makes one row several.
_REPEATS = {"expand", "expand_as", "broadcast_to", "broadcast_in_dim"}
# What puts pieces together.
GATHERS = {
    "setitem", "stack", "cat", "concat", "concatenate", "array", "asarray", "vstack", "hstack", "copy", "copyto",
    "written", "index_put", "slice_scatter", "row_stack", "column_stack", "tensor", "dynamic_update_slice",
    "scatter", "put_along_axis",
}  # fmt: skip
# What takes nothing but the shape of what it is given.
_SHAPED = {"zeros_like", "ones_like", "full_like", "empty_like", "new_zeros", "new_ones", "new_full", "new_empty"}
# What repeats numbers.
GROWS = {"expand", "broadcast_to", "repeat", "tile", "repeat_interleave"}


def masklike(x: np.ndarray) -> bool:
    """Booleans, or numbers that are 0 and 1, or 0 and very negative."""
    if x.dtype.kind == "b" or not x.size:
        return True
    if x.dtype.kind != "f":
        return False
    # Mostly the first number tells, of arrays that are asked as often as something is taken of them.
    first = x.item(0)
    if not (first in (0, 1) or first < -1e3):
        return False
    low = x < -1e3
    return bool(((x == 0) | low).all() and low.any()) or bool(((x == 0) | (x == 1)).all())


def taken(operation: Operation) -> int:
    """How many operands give numbers: of what makes one like another, the first; of what takes a shape, none."""
    return 0 if operation.name in _SHAPED else 1 if operation.name in _LIKE else len(operation.sources)


def carriers(operations: Sequence[Operation]) -> list[bool]:
    """Of each operation, whether its result depends on the arguments' data; a mask is no data."""
    found: list[bool] = []
    for operation in operations:
        given = operation.host.dtype.kind != "b" and any(
            found[source] if source is not None else origin.startswith("argument") and not masklike(x)
            for source, origin, x, _ in zip(
                operation.sources, operation.origins, operation.operands, range(taken(operation)), strict=False
            )
        )
        found.append(given)
    return found


def moving(thing: Operation | Product, data: Sequence[bool]) -> list[bool]:
    """Of what something was made of, whether each depends on the arguments' data."""
    return [data[s] if s is not None else o.startswith("argument")
            for s, o in zip(thing.sources, thing.origins, strict=True)]  # fmt: skip


def reaches(operations: Sequence[Operation]) -> list[frozenset[str]]:
    """Of each operation, the arguments that its result depends on; masks are none."""
    found: list[frozenset[str]] = []
    for operation in operations:
        mine: set[str] = set()
        for i, source in enumerate(operation.sources[: taken(operation)]):
            mine |= found[source] if source is not None else _given(operation, i)
        found.append(frozenset(mine))
    return found


def _given(operation: Operation, place: int) -> set[str]:
    origin, x = operation.origins[place], operation.operands[place]
    return {origin} if origin.startswith("argument") and not masklike(x) else set()


def reach_of(operation: Operation, place: int, reach: Sequence[frozenset[str]]) -> frozenset[str]:
    """The arguments that an operand depends on: its own, or those that reach what made it."""
    source = operation.sources[place]
    return frozenset(_given(operation, place)) if source is None else reach[source]


def sums_to_one(x: np.ndarray) -> list[int]:
    """Axes along which the entries, none of them negative, sum to 1; rows of zeros and NaN aside."""
    if x.dtype.kind != "f" or not x.size or x.ndim < 1:
        return []
    bad = ~np.isfinite(x)
    values = np.where(bad, 0, x)
    if bad.all() or (values < -1e-12).any():
        return []
    found = []
    for axis in range(x.ndim):
        sums = values.sum(axis, dtype=np.float64)
        near = np.abs(sums - 1) < (1e-2 if x.itemsize < 4 else 1e-4)
        # What is 0 and 1 everywhere is a mask or a choice, unless it was weighed.
        whole = (near | (sums == 0) | bad.any(axis)).all()
        if x.shape[axis] > 1 and near.any() and whole and (values.max(axis) < 1).any():
            found.append(axis)
    return found


def untag(tag: np.ndarray, x: np.ndarray, y: np.ndarray, view: bool) -> np.ndarray | None:
    """The tag of y for x, of which y is another view; None where it is neither a reshape nor a transpose."""
    if x.shape == y.shape and (not view or equal(x, y)):
        return tag
    if x.size != y.size:
        return None
    long = [n for n in x.shape if n > 1]
    if long == [n for n in y.shape if n > 1] and (not view or equal(x.reshape(y.shape), y)):
        return tag.reshape(x.shape)
    if equal(x.reshape(y.shape), y):
        return tag.reshape(x.shape)
    for axes in permutations(range(x.ndim)) if x.ndim < 6 else ():
        turned = x.transpose(axes)
        if equal(turned.reshape(y.shape), y):
            return tag.reshape(turned.shape).transpose(np.argsort(axes))
    return None


def repeated(x: np.ndarray, y: np.ndarray, name: str) -> np.ndarray | None:
    """Of what x was repeated to, such as the weights of one query to those of all, the place of each entry in x."""
    fits = name in _REPEATS and x.ndim == y.ndim and x.size < y.size
    if not fits or any(n not in (1, m) for n, m in zip(x.shape, y.shape, strict=True)):
        return None
    at = np.broadcast_to(np.arange(x.size).reshape(x.shape), y.shape)
    return at if equal(x.ravel()[at], y) else None


def without_sink(x: np.ndarray, y: np.ndarray) -> tuple[slice, ...] | None:
    """Where weights lie among those of which they are a part; None if they do not.

    The others of a row are those of other keys, or that of a sink.
    """
    axes = [a for a, (n, m) in enumerate(zip(y.shape, x.shape, strict=False)) if m != n]
    if x.ndim != y.ndim or len(axes) != 1 or x.shape[axes[0]] < y.shape[axes[0]]:
        return None
    (axis,) = axes
    length = y.shape[axis]
    parts = ((*[slice(None)] * axis, slice(start, start + length)) for start in range(x.shape[axis] - length + 1))
    return next((part for part in parts if equal(x[part], y)), None) if axis in sums_to_one(x) else None


def tempered(scores: np.ndarray, weights: np.ndarray) -> tuple[float, np.ndarray] | None:
    """The factor by which weights are a softmax over some keys of scores, and which: rows may sum to less than 1."""
    kept = (weights > 1e-30) & np.isfinite(weights) & np.isfinite(scores)
    if (weights < 0).any() or (np.where(kept, weights, 0).sum(1) > 1.0001).any():
        return None
    many = kept.sum(1, keepdims=True)
    logs, x = np.log(np.where(kept, weights, 1)), np.where(kept, scores, 0)
    logs, x = (np.where(kept, y - y.sum(1, keepdims=True) / np.maximum(many, 1), 0) for y in (logs, x))
    if not (many > 1).any() or int((many[many > 1] - 1).sum()) < 4 or not (x**2).sum() > 1e-12:
        return None
    factor = float((logs * x).sum() / (x**2).sum())
    # Weights that are all one are made of no scores.
    varied = np.abs(factor * x).max() > 1e-9
    return (factor, kept) if varied and np.abs(logs - factor * x).max() < 1e-5 * (1 + np.abs(logs).max()) else None


def mixed_of(operation: Operation, data: list[bool]) -> list[int]:
    """What a product with a square matrix was made of, or one with parameters as many as it has rows or columns for."""
    every = list(zip(operation.operands, operation.sources, operation.origins, strict=True))
    whole = [(x, origin) for x, source, origin in every if source is None or not data[source]]
    # Convolutions of single places, whose axes are the last, mix what is before these.
    plainly = [x.shape[:2] if operation.name.startswith("conv") and max(x.shape[2:], default=2) == 1 else x.shape
               for x, _ in whole]  # fmt: skip
    sides = [(shape[0], shape[-1]) for shape in plainly if shape]
    given, size = any(origin.startswith("argument") for _, origin in whole), operation.host.size

    def turned(x: np.ndarray) -> bool:
        if x.size == size:
            return all(one == two for one, two in sides)
        # What is given may be values as well, but seldom the same ones for all samples and heads.
        heads = not given or (x.ndim > 3 and whole[0][0].ndim == 2)
        return heads and any(
            min(one, two) > 1 and size in (x.size * one / two, x.size * two / one) for one, two in sides
        )

    if len(whole) != len(every) - 1:
        return []
    return [source for x, source, _ in every if source is not None and data[source] and turned(x)]


def constant_ratio(x: np.ndarray, y: np.ndarray, tolerance: float = 1e-4) -> float | None:
    """The number that y is x times, None where it is not."""
    if x.shape != y.shape or not np.isfinite(x).all() or not np.isfinite(y).all() or not x.size:
        return None
    largest = int(np.abs(x).argmax())
    divisor = x.ravel()[largest]
    ratio = float(y.ravel()[largest] / divisor) if divisor else 0.0
    same = abs(ratio) > 1e-9 and np.allclose(y, ratio * x, rtol=tolerance, atol=1e-9 * abs(divisor * ratio))
    return ratio if same else None


def equal(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether two arrays have one shape and the same numbers but for rounding; NaN equals NaN."""
    return x.shape == y.shape and close(x, y, 1e-5, 1e-8)


def close(x: np.ndarray, y: np.ndarray, relative: float, absolute: float) -> bool:
    """Whether real numbers are the same but for rounding, NaN and NaN too; ``numpy.allclose`` is slow."""
    x, y = (z if z.dtype.kind in "fc" else z.astype(float) for z in (x, y))
    with np.errstate(all="ignore"):
        known = (np.abs(x - y) <= absolute + relative * np.abs(y)) & np.isfinite(y)
    return bool(known.all() or (known | (x == y) | ((x != x) & (y != y))).all())
