"""What queries, keys and values were before views and constant factors, and where in it each of their numbers lay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from overt.recorder.flow import GATHERS, GROWS, VIEWS, close, taken
from overt.recorder.operations import Line, Operation

PRODUCTS = {"mm", "addmm", "bmm", "matmul", "einsum", "dot", "linear", "baddbmm", "dot_general", "tensordot"}
_SAMPLES = {
    "index", "split", "chunk", "unbind", "select", "repeat", "repeat_interleave", "index_select", "expand",
    "broadcast_to", "broadcast_in_dim", "take", "tile", "array_split", "slice", "dynamic_slice", "expand_as",
}  # fmt: skip

# Numbers of a slice by which most places where it does not lie are told.
_PROBES = 6


@dataclass(frozen=True, eq=False)
class Origin:
    """Queries, keys or values: (n, positions, width), and the array they were before views and constant factors."""

    form: np.ndarray
    array: np.ndarray
    factor: float
    lines: list[Line | None]
    source: int | None
    views: list[int]

    @cached_property
    def along(self) -> list[int] | None:
        """The axes of the array along which the width runs."""
        at = self.places
        return None if at is None else [axis for axis, c in enumerate(at) if (c != c[:, :, :1]).any()]

    @cached_property
    def places(self) -> list[np.ndarray] | None:
        """Coordinates in the array of every number of the form."""
        return places(self.form / self.factor, self.array) if self.factor else None


def added(operations: Sequence[Operation], one: Origin) -> list[int] | None:
    """The positions of what is computed, where what was kept is put beside it; None where nothing is."""
    joined = None if one.source is None else operations[one.source]
    if joined is None or joined.name not in GATHERS or not one.factor:
        return None
    computed = [x for x, s in zip(joined.operands, joined.sources, strict=True) if s is not None]
    if len(computed) != 1 or len(joined.operands) < 2 or computed[0].size < 2:
        return None
    flat, wanted = np.sort(computed[0], None), one.form / one.factor
    at = np.clip(np.searchsorted(flat, wanted), 1, len(flat) - 1)
    own = (np.isclose(flat[at], wanted, 1e-6, 1e-12) | np.isclose(flat[at - 1], wanted, 1e-6, 1e-12)).all(2)
    alike = (own == own[:1]).all() and 0 < own[0].sum() < len(own[0])
    return [*map(int, np.flatnonzero(own[0]))] if alike else None


def picked(operations: Sequence[Operation], source: int | None) -> dict[bytes, int] | None:
    """The orders in which samples were put of what was computed or kept, and the operations that did that.

    None where something else was done to it on the way.
    """
    found, open_, seen = dict[bytes, int](), [source], set[int]()
    while open_:
        number = open_.pop()
        if number is None or number in seen or operations[number].name in PRODUCTS:
            continue
        seen.add(number)
        name, operands, host = operations[number].name, operations[number].operands, operations[number].host
        if name not in _SAMPLES | VIEWS | GATHERS or not operands:
            return None
        for x in operands[1:]:
            order = x.ravel()
            if x.dtype.kind in "iu" and operands[0].ndim > 2 and len(order) == len(operands[0]) == len(host):
                found |= {order.astype(int).tobytes(): number} if (order != np.arange(len(order))).any() else {}
        open_ += [s for x, s in zip(operands, operations[number].sources, strict=True) if x.dtype.kind == "f"]
    return found


def followed(
    operations: Sequence[Operation], data: Sequence[bool], form: np.ndarray, source: int | None, operand: np.ndarray
) -> Origin:
    """An operand of a product walked back through views and constant factors."""
    factor, lines, current, views = 1.0, [], operand, []
    while source is not None:
        operation = operations[source]
        size = operation.host.size
        own = [
            (x, s)
            for i, (x, s, o) in enumerate(
                [*zip(operation.operands, operation.sources, operation.origins, strict=True)][: taken(operation)]
            )
            # What says which are taken is not taken.
            if not (i and operation.name in _SAMPLES and x.dtype.kind in "iu")
            and (x.dtype.kind == "f" and x.ndim and (x.size == size or bool(o)) if s is None else data[s])
        ]
        if len(own) > 1 and operation.name in GATHERS and len({id(s) if s is None else s for _, s in own}) == 1:
            # The same once more, as where heads are repeated.
            alike = all(x.shape == own[0][0].shape and np.array_equal(x, own[0][0]) for x, _ in own)
            own = own[:1] if alike else own
        if operation.name in PRODUCTS or len(own) != 1:
            break
        x, before = own[0]
        if x.size == operation.host.size and x.size:
            one, two = np.sort(np.abs(x).ravel()), np.sort(np.abs(operation.host).ravel())
            ratio = float(two[-1] / one[-1]) if one[-1] else 1.0
            if not np.allclose(one * ratio, two, rtol=1e-6, atol=1e-12):
                break
            # All with their signs turned, and not some, as where they are rotated.
            after, plain = np.sort(operation.host, None), np.sort(ratio * x, None)
            if not np.allclose(plain, after, 1e-6, 1e-12) and np.allclose(-plain[::-1], after, 1e-6, 1e-12):
                ratio = -ratio
            views.append(source)
            if abs(ratio - 1) > 1e-9:
                factor *= ratio
                lines.append(operation.line)
        elif operation.name in _SAMPLES | GATHERS:
            views.append(source)
        else:
            break
        current, source = x, before
    if source is not None and operations[source].name in GATHERS and factor:
        current = _gathered(operations, form / factor, source, current)
    return Origin(form, current, factor, lines, source, views)


def _gathered(operations: Sequence[Operation], form: np.ndarray, source: int, array: np.ndarray) -> np.ndarray:
    """What was taken apart before it was put together again: the earlier array that has all these numbers."""
    open_, seen = [source], set[int]()
    while open_ and len(seen) < 200:
        operation = operations[open_.pop()]
        for x, before in zip(operation.operands, operation.sources, strict=True):
            large = x.dtype.kind == "f" and x.size >= form.size and x.ndim > 2 and x.shape[-1] > form.shape[-1]
            if large and places(form, x) is not None:
                return x
            if before is not None and before not in seen and operation.name in GATHERS | VIEWS | _SAMPLES:
                seen.add(before)
                open_.append(before)
    return array


def behind(operations: Sequence[Operation], number: int | None) -> int | None:
    """What something was before views, slices and repetitions of it."""
    while number is not None and operations[number].name in VIEWS | GROWS and taken(operations[number]) == 1:
        number = next(iter(operations[number].sources), None)
    return number


def places(small: np.ndarray, large: np.ndarray) -> list[np.ndarray] | None:
    """Coordinates in ``large`` of every value of ``small``, by value; None where that is not sure."""
    flat = large.ravel()
    if flat.dtype.kind != "f" or flat.size < 4 or large.ndim < 2 or not np.isfinite(flat).all():
        return None
    order = np.argsort(flat)
    ranked = flat[order]
    if (np.diff(ranked) == 0).any():
        at = _by_axes(small, flat, order, ranked)
        return None if at is None else list(np.unravel_index(at, large.shape))
    wanted = small.ravel()
    at = np.clip(np.searchsorted(ranked, wanted), 0, len(ranked) - 1)
    below = np.clip(at - 1, 0, None)
    at = np.where(np.abs(ranked[below] - wanted) < np.abs(ranked[at] - wanted), below, at)
    if not np.allclose(ranked[at], wanted, rtol=1e-6, atol=1e-12):
        return None
    return [c.reshape(small.shape) for c in np.unravel_index(order[at], large.shape)]


def _by_axes(small: np.ndarray, flat: np.ndarray, order: np.ndarray, ranked: np.ndarray) -> np.ndarray | None:
    """Where values of ``small`` lie in ``flat``, some of which it has several times; None where that is not sure.

    Views only: each index of each axis moves the place by a number of its own.  Those that single values tell
    are taken, and of the rest the first that agree with all values.
    """
    near = 1e-6 * np.abs(small) + 1e-12
    first, end = np.searchsorted(ranked, small - near), np.searchsorted(ranked, small + near, "right")
    single, place = end - first == 1, order[np.minimum(first, len(order) - 1)]
    if not single.any() or (end == first).any():
        return None
    # Of each axis the index that is told most often.
    middle = [int(single.sum(tuple(set(range(small.ndim)) - {axis})).argmax()) for axis in range(small.ndim)]
    base = np.zeros(small.shape, np.int64)
    unknown: list[tuple[int, int]] = []
    for axis, length in enumerate(small.shape):
        told, where = np.moveaxis(single, axis, 0), np.moveaxis(place, axis, 0)
        steps = np.zeros(length, np.int64)
        for i in range(length):
            both = told[i] & told[middle[axis]]
            if both.any():
                steps[i] = (where[i] - where[middle[axis]])[both][0]
            else:
                unknown.append((axis, i))
        base += steps.reshape([-1 if a == axis else 1 for a in range(small.ndim)])
    base += (place - base)[single][0]
    for axis, i in unknown:
        slices = tuple(i if a == axis else slice(None) for a in range(small.ndim))
        here = base[slices]
        spots = order[first[slices].flat[0] : end[slices].flat[0]] - here.flat[0]
        # Few of these agree with its largest numbers too.
        for n in np.argsort(-np.abs(small[slices]), axis=None)[:_PROBES]:
            there = here.flat[n] + spots
            agrees = np.abs(flat.take(there, mode="clip") - small[slices].flat[n]) <= near[slices].flat[n]
            spots = spots[(there >= 0) & (there < len(flat)) & agrees]
        step = next((n for n in spots if _agrees(small[slices], flat, here + n)), None)
        if step is None:
            return None
        base[slices] = here + step
    return base if _agrees(small, flat, base) and (base[single] == place[single]).all() else None


def _agrees(values: np.ndarray, flat: np.ndarray, at: np.ndarray) -> bool:
    inside = at.min() >= 0 and at.max() < len(flat)
    return bool(inside and close(flat[at], values, 1e-6, 1e-12))


def constant_over(x: np.ndarray) -> bool:
    """Whether coordinates (n, positions, width) depend on n alone."""
    return bool((x == x[:, :1, :1]).all())
