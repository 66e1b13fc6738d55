"""Scores that are no product of queries and keys: what is added up in them; and what a decoder makes of its context.

An additive score (Bahdanau et al. 2015) is v · tanh(W q + U k): a sum, bent, and contracted with a vector.  The parts
of the sum are found by walking back from the contraction; which of them asks and which is asked is told by whether it
is the same for all keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from overt.check.steps.pipeline import GIVEN
from overt.recorder.apart import key_labels
from overt.recorder.core import ADDS, Core
from overt.recorder.flow import GATHERS, VIEWS, reach_of, sums_to_one
from overt.recorder.operations import Line, Operation
from overt.recorder.products import made_of, product

_JOINS = {"cat", "concat", "concatenate", "hstack"}
# Linear in the one operand that is data.
_LINEAR = VIEWS | GATHERS | ADDS | {
    "mul", "multiply", "rmul", "imul", "div", "divide", "truediv", "true_divide", "repeat", "tile", "repeat_interleave",
    "neg", "negative", "conv1d", "conv2d", "pad", "detach", "dropout",
}  # fmt: skip
# Axes of weights whose keys have one axis: samples, heads, queries and keys.
_MAPS = 4
# Operations walked back, or on; and of several steps those whose weights are judged, beside the last.
_FAR, _STEPS = 40, 2


@dataclass(frozen=True, eq=False)
class Part:
    """One term of a sum, as large as that: the arguments that it has along the keys, and whether it was mapped."""

    value: np.ndarray
    reach: frozenset[str]
    mapped: bool


@dataclass(frozen=True, eq=False)
class Sum:
    """What an additive score is made of: its terms, the operation that adds them, and the axis of the keys."""

    parts: list[Part]
    number: int
    axis: int
    bent: bool
    joined: bool

    def asks(self, part: Part) -> bool:
        """Whether a term is the same for all keys."""
        return not _varies(part, self.axis)

    @property
    def meets(self) -> bool:
        """Whether in one term, such as a product, each query meets each key already."""
        asked = [part for part in self.parts if not self.asks(part)]
        axes = range(self.parts[0].value.ndim)
        return any(_varies(one, axis) and not _varies(two, axis) for one in asked for two in asked for axis in axes)


def _varies(part: Part, axis: int) -> bool:
    x = np.moveaxis(part.value, axis, 0)
    return not bool((x == x[:1]).all())


def anatomy(core: Core, reach: Sequence[frozenset[str]]) -> Sum | None:
    """The sum that the scores of a core are made of; None where they are made in another way."""
    scores, keys = core.scores, key_labels(core)
    one = scores.left, scores.labels[0], scores.sources[0], scores.origins[0]
    two = scores.right, scores.labels[1], scores.sources[1], scores.origins[1]
    for (x, labels, source, _), (by, other, maker, origin) in ((one, two), (two, one)):
        # It is contracted with a vector, which each head may have, or with ones.
        alone = [a for a in other if a not in scores.batch + scores.summed and by.shape[other.index(a)] > 1]
        asked = reach[maker] if maker is not None else origin.startswith("argument")
        alone += [a for a in scores.batch if asked and np.ptp(by, axis=other.index(a)).any()]
        if source is None or alone or len(keys) != 1 or keys not in labels:
            continue
        found = _summed(core.operations, reach, source, x, labels.index(keys))
        if found is not None:
            return found
    return None


def _summed(
    operations: Sequence[Operation], reach: Sequence[frozenset[str]], number: int, x: np.ndarray, axis: int
) -> Sum | None:
    bent = False
    for _ in range(_FAR):
        operation = operations[number]
        axis_here = _axis(operation.host, x, axis)
        if axis_here is None:
            return None
        own = [i for i in range(len(operation.operands)) if reach_of(operation, i, reach)]
        parts = _parts(operations, reach, operation, axis_here) if operation.name in ADDS | _JOINS else []
        # A state that begins as zeros depends on no argument.
        if (len(own) > 1 and parts) or any(not part.reach for part in parts):
            wide = [p for p in parts if p.value.ndim > 1]
            joined = operation.name in _JOINS
            many = sum(x.shape[axis_here] for x in operation.operands if x.ndim == operation.host.ndim)
            if joined and many == operation.host.shape[axis_here]:
                # Keys that are put together, one behind the other.
                return None
            return Sum(wide, number, axis_here, bent, joined) if len(wide) > 1 else None
        made = product(operations, number)
        if made is not None and len(own) > 1:
            # A matrix that was given: what goes on is the one that holds the keys.
            label = made.labels[2][axis_here] if len(made.labels[2]) == operation.host.ndim else ""
            holds = [label in made.labels[0], label in made.labels[1]]
            if not label or all(holds):
                return None
            nexts = made.sources[0] if holds[0] else made.sources[1]
        elif len(own) == 1:
            nexts = operation.sources[own[0]]
            same = operation.operands[own[0]].shape == operation.host.shape and np.array_equal(
                operation.operands[own[0]], operation.host
            )
            bent = bent or not (made is not None or operation.name in _LINEAR or same)
        else:
            return None
        if nexts is None:
            return None
        x, axis, number = operation.host, axis_here, nexts
    return None


def _axis(host: np.ndarray, x: np.ndarray, axis: int) -> int | None:
    """The axis of an earlier array that an axis of a later one was: at the same place, or the one of that length."""
    if host.ndim == x.ndim and host.shape[axis] == x.shape[axis]:
        return axis
    same = [i for i, n in enumerate(host.shape[:-1]) if n == x.shape[axis]]
    return same[-1] if same else None


def _parts(
    operations: Sequence[Operation], reach: Sequence[frozenset[str]], operation: Operation, axis: int
) -> list[Part]:
    """The terms of a sum, or the pieces of what was joined, of sums in it too; constants that no map made aside."""
    found: list[Part] = []
    joins = operation.name in _JOINS
    for i, x in enumerate(operation.operands):
        mine = reach_of(operation, i, reach)
        if (not joins and x.ndim < 2) or (joins and x.ndim != operation.host.ndim):
            continue
        source = operation.sources[i]
        inner = operations[source] if source is not None else None
        if inner is not None and inner.name in ADDS and not joins and inner.host.shape == operation.host.shape:
            more = _parts(operations, reach, inner, axis)
            if len(more) > 1:
                found += more
                continue
        value = x if joins else np.broadcast_to(x, operation.host.shape)
        part = _part(operations, reach, source, value, mine, axis)
        if mine or (part.mapped and not joins and not _varies(part, axis)):
            found.append(part)
    return found


def _part(
    operations: Sequence[Operation],
    reach: Sequence[frozenset[str]],
    source: int | None,
    value: np.ndarray,
    mine: frozenset[str],
    axis: int,
) -> Part:
    """One term: walked back to the map that made it, it depends on what that has along the keys."""
    for _ in range(_FAR):
        if source is None:
            break
        made = product(operations, source)
        if made is not None:
            operation = operations[source]
            here = _axis(operation.host, value, axis)
            label = made.labels[2][here] if here is not None and len(made.labels[2]) == operation.host.ndim else ""
            for labels, s, place in ((made.labels[0], made.sources[0], 0), (made.labels[1], made.sources[1], 1)):
                if label and label in labels and place < len(operation.operands):
                    mine = reach[s] if s is not None else frozenset({made.origins[place]} & mine)
                    break
            return Part(value, mine, True)
        operation = operations[source]
        # What depends on no argument is a view of what stands first.
        own = [i for i in range(len(operation.operands)) if reach_of(operation, i, reach)] or [0]
        if operation.name not in _LINEAR or len(own) != 1:
            break
        source = operation.sources[own[0]]
    return Part(value, mine, False)


def completed(
    operations: Sequence[Operation], outputs: Sequence[np.ndarray], promised: bool = False
) -> list[Operation]:
    """Operations and, where weights are returned and mix nothing, others that mix one-hot values with them.

    What is returned may be the logarithms of weights, or what several steps gave.  promised: whether it is said to sum
    to 1; then it may be what weights were made of that are not returned.
    """
    written = list(operations)
    for x in outputs:
        number = next((i for i in range(len(written) - 1, -1, -1) if _same(written[i].host, x)), None)
        if number is None:
            continue
        # Of single numbers the whole is made, as of a row of weights.
        taken = zip(written[number].sources, written[number].operands, strict=True)
        each = [s for s, y in taken if s is not None and y.ndim] if written[number].name in GATHERS else []
        found: list[tuple[int, int, int]] = []
        found += [(number, *one)] if (one := _weights(x)) is not None and not each[1:] else []
        found += [(n, *one) for n in (*each[:_STEPS], *each[_STEPS:][-1:]) if (one := _weights(written[n].host))]
        if promised and not found:
            scores = {*each[:_STEPS], *each[_STEPS:][-1:]} if each[1:] else {number}
            kept: dict[int, tuple[int, int, int]] = {}
            for n, op in enumerate(operations):
                one = _weights(op.host)
                of = max(scores & made_of(operations, n), default=None) if one is not None else None
                if one is not None and of is not None and operations[of].host.shape == op.host.shape:
                    kept[of] = n, one[0], 2
            # What chooses among one alone says nothing.
            found = [*kept.values()] if 2 * len(kept) > len(scores) else []
        for made, axis, logarithms in found:
            line, host = written[made].line, written[made].host

            def add(name: str, y: np.ndarray, *given: tuple[np.ndarray, int | None], detail: str = "",
                    line: Line | None = line) -> None:  # fmt: skip
                sources, operands = tuple(s for _, s in given), tuple(z for z, _ in given)
                written.append(Operation(name, sources, operands, y, y, line, detail, ("",) * len(given)))

            if host.ndim > _MAPS:
                # Keys that are pixels have rows and columns.
                flat = host.reshape(*host.shape[:-2], -1)
                add("reshape", flat, (host, made))
                made, host = len(written) - 1, flat
            if logarithms == 1:
                add("exp", np.exp(host), (host, made))
                made, host = len(written) - 1, np.exp(host)
            moved, values = np.moveaxis(host, axis, -1), np.eye(host.shape[axis])
            add("moveaxis", moved, (host, made))
            add(
                "matmul",
                moved @ values,
                (moved, len(written) - 1),
                (values, None),
                detail=GIVEN[logarithms],
            )
        if found:
            break
    return written


def _weights(x: np.ndarray) -> tuple[int, bool] | None:
    """The axis along which an array sums to 1, and whether its exponentials do; None where neither is so."""
    for logarithms in (False, True) if x.size else ():
        with np.errstate(all="ignore"):
            y = np.exp(x) if logarithms and x.dtype.kind == "f" else x
            y = y.reshape(*y.shape[:-2], -1) if y.ndim > _MAPS else y
        axes = sums_to_one(y)
        two = ((axis, y.ndim - 1) for axis in range(y.ndim - 1 if y.ndim > 2 else 0))
        if not axes and (y >= 0).all() and any(np.allclose(y.sum(both), 1, atol=1e-4) for both in two):
            # Over two together: the last has the keys.
            axes = [y.ndim - 1]
        if len(axes) == 1 and y.shape[axes[0]] > 2:
            return axes[0], logarithms
    return None


def _same(x: np.ndarray, y: np.ndarray) -> bool:
    return x.shape == y.shape and np.array_equal(x, y, equal_nan=True)


def vector(
    operations: Sequence[Operation], reach: Sequence[frozenset[str]], outputs: Sequence[np.ndarray], mix: int | None
) -> tuple[int, bool] | None:
    """The operation that makes one vector of context and state by matrices, and whether it is returned as it is.

    mix: the operation that made the context, None where that is an argument.
    """
    context: set[int] = set() if mix is None else {mix}
    joined: set[int] = set()
    made: set[int] = set()
    for number in range(0 if mix is None else mix + 1, len(operations)):
        operation = operations[number]
        sources = [s for s in operation.sources if s is not None]
        own = [i for i in range(len(operation.operands)) if reach_of(operation, i, reach)]
        mine = context & set(sources)
        if operation.name in _JOINS and len(own) > 1 and (mine or mix is None):
            joined.add(number)
        elif operation.name in ADDS and len(own) > 1 and made & set(sources):
            return number, any(_like(operation.host, x) for x in outputs)
        elif product(operations, number) is not None and (mine or joined & set(sources)):
            if joined & set(sources):
                last = _biased(operations, number)
                takers = [n for n, op in enumerate(operations) if last in op.sources]
                # What the next matrix takes as it is, or lies beside that of other steps, was not bent either.
                kept = VIEWS | _JOINS | {"stack"}
                on = takers and all(product(operations, n) or operations[n].name in kept for n in takers)
                bare = bool(on) or any(_like(operations[last].host, x) for x in outputs)
                bent = any(last in op.sources and _returned(op, operations[last], outputs) for op in operations)
                return (last, bare) if bare or bent else None
            made.add(number)
        elif operation.name in _LINEAR and len(own) == 1:
            for group in (context, joined, made):
                if group & set(sources):
                    group.add(number)
    return None


def _returned(operation: Operation, before: Operation, outputs: Sequence[np.ndarray]) -> bool:
    return operation.host.size == before.host.size and any(_like(operation.host, x) for x in outputs)


def _biased(operations: Sequence[Operation], number: int) -> int:
    """The last of a product and what only adds a vector to it, or views it."""
    for later in range(number + 1, len(operations)):
        operation = operations[later]
        if number not in operation.sources or operation.name not in VIEWS | ADDS:
            continue
        others = [x for s, x in zip(operation.sources, operation.operands, strict=True) if s != number]
        if all(x.ndim < 2 for x in others):
            number = later
    return number


def _like(x: np.ndarray, y: np.ndarray) -> bool:
    return x.size == y.size and bool(np.allclose(x.ravel(), y.ravel(), rtol=1e-6, atol=1e-12))
