"""Rotations of queries and keys by their positions, by what each feature is multiplied with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from overt.check.steps.origins import PRODUCTS, Origin
from overt.check.steps.positional import Told, made_at
from overt.recorder.core import Core
from overt.recorder.flow import VIEWS
from overt.recorder.operations import Line, Operation

# Operations between what is turned and what was turned.
_FAR = 80
_CLOSE = 1e-4
_OPPOSED = "Queries and keys are turned in opposite directions, so a score depends on no distance."


class Turn(NamedTuple):
    """How features are turned: their layout, by which tables (T, width) of cosines and sines, and over which axis.

    before: the operation that made what is turned, None where it was given.
    """

    layout: str
    cosines: np.ndarray
    sines: np.ndarray
    along: bool
    line: Line | None
    before: int | None = None

    @property
    def turns(self) -> np.ndarray:
        """One complex number for each position and pair, (T, width / 2)."""
        both = self.cosines + 1j * self.sines
        return both[:, : both.shape[1] // 2] if self.layout == "halves" else both[:, ::2]


def turned(
    core: Core,
    data: Sequence[bool],
    operands: tuple[Origin, Origin, Origin],
    intended: Mapping[str, Any],
    facts: dict[str, Any],
) -> Iterator[Told]:
    """What is told of rotations of queries, keys and values by their positions.  Su et al. 2021 (arXiv:2104.09864)."""
    q, k, v = (turn(core.operations, data, one) for one in operands)
    if q is None and k is not None:
        # Queries that share their keys lie along an axis beside that of their positions.
        turns = [one for some in _apart(core, operands[0]) if (one := turn(core.operations, data, some)) is not None]
        q = max(turns, key=lambda one: one.along, default=None)
    step = "rotation"
    if q is None and k is None:
        # What each sample says of its own positions may be told by other numbers than steps.
        one, two = (turn(core.operations, data, some, each=True) for some in operands[:2])
        amiss = next((told for some in (one, two) if some is not None for told in _unpaired(core, some)), None)
        if amiss is not None and amiss.mistake:
            yield amiss
        elif one is not None and two is not None and _opposed(one, two):
            yield Told(step, "unknown", _negated(core, data, operands) or two.line, _OPPOSED)
        return
    for name, one in (("queries", q), ("keys", k)):
        if one is None:
            continue
        if not one.along:
            yield Told(step, "unknown", one.line, f"The {name} are turned by another axis than that of the positions.")
            return
        if (np.abs(one.sines) > _CLOSE).any(0).sum() == 2:
            # Of one pair no layout is seen.
            facts["one pair"] = True
        for told in _unpaired(core, one):
            yield told
            return
    if v is not None and intended.get("rotates q and k") and q is not None:
        yield Told(step, "unknown", v.line, "The values are turned too, where queries and keys are said to be.")
    if q is None or k is None:
        one, other = (q, operands[1]) if q is not None else (k, operands[0])
        made = None if other.source is None else core.operations[other.source]
        if one is not None and made is not None and made.name in PRODUCTS and _steady(one) is not None:
            which = (
                "queries are turned by their positions, and keys" if q is not None else "keys are turned, and queries"
            )
            yield Told(step, "unknown", one.line, f"The {which} are not, so a score depends on no distance.")
        return
    a, b = (_steady(one, _counted(core.operations, len(one.turns))) for one in (q, k))
    if a is None or b is None or a.shape != b.shape:
        yield Told(step, None, q.line, "angles that do not grow with the position by equal steps")
        return
    if not np.allclose(a, b, atol=_CLOSE):
        if np.allclose(a, b.conj(), atol=_CLOSE):
            yield Told(step, "unknown", _negated(core, data, operands) or k.line, _OPPOSED)
        else:
            yield Told(step, None, k.line, "queries and keys are turned by different angles")
        return
    T, S = len(q.turns), len(k.turns)
    line = made_at(core.operations, lambda x: np.array_equal(x.ravel(), np.arange(T)), None)
    line = line or _taken_at(core.operations, data, operands[0].source) or q.line
    first = q.turns[0] * k.turns[0].conj()
    if S > T and facts.get("causal") == S - T and np.allclose(first / np.abs(first), 1, atol=_CLOSE):
        says = f"The queries are the last {T} of {S} positions, and are turned as the first."
        yield Told(step, "rope_offset", line, says)
    else:
        yield Told(step, "", line, f"queries and keys are turned by their positions, paired as {q.layout}")


def _apart(core: Core, queries: Origin) -> Iterator[Origin]:
    """The queries with one of the axes of their rows as the positions, and the others as samples."""
    scores = core.scores
    sizes = [scores.left.shape[scores.labels[0].index(a)] for a in scores.rows]
    form = queries.form.reshape(-1, *sizes, queries.form.shape[-1])
    for axis in reversed(range(len(sizes))) if len(sizes) > 1 else ():
        moved = np.moveaxis(form, 1 + axis, -2)
        yield replace(queries, form=moved.reshape(-1, *moved.shape[-2:]))


def _opposed(one: Turn, two: Turn) -> bool:
    """Whether queries and keys at the same places are turned by the same angles, the other way round."""
    a, b = one.turns, two.turns
    if a.shape != b.shape or one.layout != two.layout or not (_paired(one, one.layout) and _paired(two, two.layout)):
        return False
    unlike = np.abs((a / b).imag) > _CLOSE
    return bool(np.allclose(a, b.conj(), atol=_CLOSE) and unlike.mean() > 0.5)


def _negated(core: Core, data: Sequence[bool], operands: tuple[Origin, Origin, Origin]) -> Line | None:
    """Where the sign of something is turned round of which queries are made, or keys, and not both."""
    q, k = (
        [core.operations[n].line for n, _ in _before(core.operations, data, one.source or 0)
         if core.operations[n].name in ("neg", "negative")] for one in operands[:2]
    )  # fmt: skip
    return next((line for line in (*k, *q) if line not in q or line not in k), None)


def _unpaired(core: Core, one: Turn) -> Iterator[Told]:
    """What is told where the features of a pair are not turned by one angle."""
    step = "rotation"
    if _paired(one, one.layout):
        return
    if _paired(one, "halves" if one.layout == "neighbours" else "neighbours"):
        says = f"Features are paired as {one.layout}, and their angles are not."
        yield Told(step, "rope_layout", _laid_at(core, one) or one.line, says)
    elif _slipped(one):
        says = "One of the two features of a pair is turned by the angle of its position, and the other is not."
        yield Told(step, "unknown", one.line, says)
    else:
        yield Told(step, None, one.line, "features are turned in a way of their own")


def _paired(one: Turn, layout: str) -> bool:
    """Whether the features of a pair, by a layout, have one cosine and one sine."""
    half = one.cosines.shape[1] // 2
    pairs = [(x[:, :half], x[:, half:]) if layout == "halves" else (x[:, ::2], x[:, 1::2])
             for x in (one.cosines, one.sines)]  # fmt: skip
    return all(np.allclose(x, y, atol=_CLOSE) for x, y in pairs)


def _laid_at(core: Core, one: Turn) -> Line | None:
    """Where the angles of the pairs were laid beside each other as the features are not; None where they were kept."""
    width, apart = one.cosines.shape[1], one.layout == "neighbours"

    def laid(x: np.ndarray) -> bool:
        if not x.ndim or x.shape[-1] != width or x.dtype.kind != "f" or x.size < 2 * width:
            return False
        first, last = (x[..., : width // 2], x[..., width // 2 :]) if apart else (x[..., ::2], x[..., 1::2])
        return np.array_equal(first, last) and bool(np.ptp(first, -1).any())

    return made_at(core.operations, laid, None)


def _slipped(one: Turn) -> bool:
    """Whether one feature of each pair is turned by an angle, with which the other has its cosine or its sine alone."""
    half = one.cosines.shape[1] // 2
    first, last = (slice(half), slice(half, None)) if one.layout == "halves" else (slice(0, None, 2), slice(1, None, 2))
    both = [(one.cosines[:, at], one.sines[:, at]) for at in (first, last)]
    turns = any(np.allclose(c**2 + s**2, 1, atol=_CLOSE) for c, s in both)
    return turns and sum(np.allclose(x, y, atol=_CLOSE) for x, y in zip(*both, strict=True)) == 1


def _steady(one: Turn, given: Sequence[np.ndarray] = ()) -> np.ndarray | None:
    """By what each position is turned more than the one before, where that is the same everywhere, and not nothing.

    given: numbers that the positions may have, where they do not follow each other.
    """
    turns = one.turns
    with np.errstate(all="ignore"):
        steps = turns[1:] / turns[:-1]
        steps = steps / np.abs(steps)
    if not len(steps) or not np.isfinite(steps).all():
        return None
    for at in (np.arange(len(turns)), *given):
        far = np.diff(at)
        apart = np.where(np.abs(far) > 1e-6, np.abs(far), np.inf)
        # The nearest are turned by less than half a circle.
        least = int(apart.argmin())
        rates = np.angle(steps[least]) / far[least] if np.isfinite(apart[least]) else np.zeros(1)
        if (np.abs(rates) > _CLOSE).any() and np.allclose(steps, np.exp(1j * rates * far[:, None]), atol=_CLOSE):
            return np.asarray(np.exp(1j * rates))
    return None


def _counted(operations: Sequence[Operation], length: int) -> list[np.ndarray]:
    """Numbers that are given, one of so many positions each, every array once."""
    found: dict[str, np.ndarray] = {}
    for operation in operations:
        for x, origin in zip(operation.operands, operation.origins, strict=True):
            if origin.startswith("argument") and x.dtype.kind in "iuf" and x.size == length:
                found.setdefault(origin, x.ravel().astype(float))
    return list(found.values())


def turn(operations: Sequence[Operation], data: Sequence[bool], one: Origin, each: bool = False) -> Turn | None:
    """The rotation that an operand of scores came from, None where it came from none.

    each: with angles for each sample, which come first.
    """
    if one.source is None or operations[one.source].name in PRODUCTS or not one.factor:
        return None
    after = [operations[one.source].host, *(operations[i].host for i in reversed(one.views))]
    for number, before in (_before if each else _bottlenecks)(operations, data, one.source):
        same = [y for y in after if y.shape == before.shape]
        if not same or before.dtype.kind != "f" or before.shape[-1:] != one.form.shape[-1:] or before.shape[-1] % 2:
            continue
        x, y = before, same[0]
        axis = _positions(one.form / one.factor, y)
        if axis is None or axis == y.ndim - 1 or (each and axis == 0):
            return None
        line = operations[one.source].line
        if each:
            rows = [np.moveaxis(a, axis, 1).reshape(a.shape[0] * a.shape[axis], -1, a.shape[-1]) for a in (x, y)]
            found = _fit(rows[0], rows[1])
            if found is not None:
                return Turn(*found, True, line, number)
            continue
        # Along the positions, or else along another axis by mistake.
        for along in (axis, *(a for a in range(y.ndim - 1) if a != axis and y.shape[a] > 2)):
            found = _fit(np.moveaxis(x, along, 0), np.moveaxis(y, along, 0), _counted(operations, x.shape[along]))
            if found is not None and (along == axis or _steady(Turn(*found, True, line)) is not None):
                return Turn(*found, along == axis, line, number)
    return None


def _bottlenecks(
    operations: Sequence[Operation], data: Sequence[bool], number: int
) -> Iterator[tuple[int | None, np.ndarray]]:
    """Operations that everything of an operation's data passed through, with their results, the latest first."""
    open_, leaves, sizes = {number}, dict[str, np.ndarray](), _given(operations[:number])
    for _ in range(_FAR):
        if not open_:
            break
        last = max(open_)
        open_.remove(last)
        operation = operations[last]
        if not open_ and not leaves and last != number:
            yield last, operation.host
            if operation.name in PRODUCTS:
                return
        given = [
            (source, origin, x, x.size if source is None else sizes[source])
            for source, origin, x in zip(operation.sources, operation.origins, operation.operands, strict=True)
            if (data[source] if source is not None else origin.startswith("argument") and x.dtype.kind == "f")
        ]
        most = max((size for *_, size in given), default=0)
        for source, origin, x, size in given:
            if 2 * size < most and size < operations[number].host.size:
                # A table of cosines or sines, of which each row is that of many.
                continue
            if source is not None:
                open_.add(source)
            else:
                leaves[origin] = x
    if not open_ and len(leaves) == 1:
        yield None, next(iter(leaves.values()))


def _given(operations: Sequence[Operation]) -> list[int]:
    """How many numbers the largest argument has of which each operation is made."""
    sizes: list[int] = []
    for operation in operations:
        both = zip(operation.operands, operation.origins, strict=True)
        own = [x.size for x, origin in both if origin.startswith("argument")]
        sizes.append(max([*own, *(sizes[s] for s in operation.sources if s is not None)], default=0))
    return sizes


def _before(operations: Sequence[Operation], data: Sequence[bool], number: int) -> Iterator[tuple[int, np.ndarray]]:
    """Operations that an operation's data came from, with their results, the earliest first."""
    open_, seen = {number}, set[int]()
    while open_ and len(seen) < _FAR:
        last = max(open_)
        open_.remove(last)
        seen.add(last)
        if operations[last].name not in PRODUCTS:
            open_ |= {s for s in operations[last].sources if s is not None and data[s]}
    yield from ((n, operations[n].host) for n in sorted(seen - {number}))


def _positions(form: np.ndarray, y: np.ndarray) -> int | None:
    """The axis of y along which the positions of a form (n, positions, width) lie."""
    flat = y.ravel()
    order = np.argsort(flat, kind="stable")
    at = order[np.clip(np.searchsorted(flat[order], form.ravel() - 1e-9), 0, len(flat) - 1)]
    if not np.allclose(flat[at], form.ravel(), rtol=1e-5, atol=1e-8):
        return None
    places = [c.reshape(form.shape) for c in np.unravel_index(at, y.shape)]
    length = form.shape[1]
    found = [a for a, c in enumerate(places) if len(np.unique(c)) == length and (c == c[:1, :, :1]).mean() > 0.9]
    return found[0] if len(found) == 1 else None


def _fit(x: np.ndarray, y: np.ndarray, given: Sequence[np.ndarray] = ()) -> tuple[str, np.ndarray, np.ndarray] | None:
    """Layout and tables (T, width) of cosines and sines that turn x (T, …, D) into y, all features or the first.

    Of one vector for each position any layout fits: one by which angles grow by equal steps is meant, if there is one.
    """
    D, unsteady = x.shape[-1], None
    x, y = (a.reshape(len(a), -1, D) for a in (x, y))
    if len(x) < 2 or not x.shape[1] or not np.isfinite(y).all():
        return None
    changed = np.flatnonzero(~np.isclose(x, y, rtol=1e-5, atol=1e-8).all((0, 1)))
    first = int(changed[-1]) + 1 if len(changed) else 0
    for width in (n for n in dict.fromkeys((D, first, D // 2, D // 4)) if n >= first and n and n % 2 == 0):
        one, half = x[..., :width], width // 2
        seen = y[..., :width]
        # Neighbours, written as halves, which queries and keys may share.
        laid = np.stack([seen[..., :half], seen[..., half:]], -1).reshape(seen.shape)
        apart, beside = np.arange(width) ^ 1, np.roll(np.arange(width), half)
        # Complex numbers that were conjugated, and then turned the other way.
        mirrored = one * np.where(np.arange(width) % 2, -1, 1)
        for layout, of, made, pairs in (
            ("halves", one, seen, beside),
            ("neighbours", one, seen, apart),
            ("neighbours", one, laid, apart),
            ("neighbours", mirrored, seen, apart),
        ):
            tables = _solved(of, made, pairs)
            if tables is None or np.abs(tables[1]).max() <= 1e-3:
                continue
            if of.shape[1] > 1 or _steady(Turn(layout, *tables, True, None), given) is not None:
                return layout, *tables
            unsteady = unsteady or (layout, *tables)
    return unsteady


def _solved(x: np.ndarray, y: np.ndarray, pairs: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
    """c and s (T, width) with y = c x + s x′ for all of (T, n, width), None where there are none.

    x′: of the first feature of a pair the negative of the second, and of the second the first; pairs: the other one of
    each.  Of few vectors there always are such numbers, so those of both features have to be one cosine and one sine.
    """
    other = np.where(pairs > np.arange(len(pairs)), -x[..., pairs], x[..., pairs])
    a, b, d = (x * x).sum(1), (x * other).sum(1), (other * other).sum(1)
    one, two = (x * y).sum(1), (other * y).sum(1)
    few = x.shape[1] < 3
    if few:
        a, b, d, one, two = (each + each[:, pairs] for each in (a, b, d, one, two))
    with np.errstate(all="ignore"):
        under = a * d - b * b
        c, s = (d * one - b * two) / under, (a * two - b * one) / under
        rest = np.abs(y - c[:, None] * x - s[:, None] * other).max()
    fits = np.isfinite(c).all() and np.isfinite(s).all() and rest <= 1e-4 * np.abs(y).max()
    return (c, s) if fits and not (few and not np.allclose(c**2 + s**2, 1, atol=_CLOSE)) else None


def _taken_at(operations: Sequence[Operation], data: Sequence[bool], number: int | None) -> Line | None:
    """Where the table by which something was turned was taken from what was kept from before; None where it was not."""
    open_, seen = [number], set[int]()
    while open_:
        one = open_.pop(0)
        if one is None or one in seen or (data[one] and operations[one].name in PRODUCTS):
            continue
        seen.add(one)
        operation = operations[one]
        kept = [s is None for s, x in zip(operation.sources, operation.operands, strict=True) if x.size > 1]
        if not data[one] and kept == [True] and operation.name in VIEWS and operation.operands[0].size > 1:
            return operation.line
        open_ += operation.sources
    return None
