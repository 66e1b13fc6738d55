"""Projections that queries, keys and values share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

import numpy as np

from overt.check.steps.origins import Origin
from overt.check.steps.pipeline import near
from overt.recorder.core import ADDS
from overt.recorder.flow import moving
from overt.recorder.operations import Operation
from overt.recorder.products import Product

# What takes some of an array.
PIECES = {"index", "split", "chunk", "unbind", "select", "array_split", "getitem"}


def shared(
    operations: Sequence[Operation],
    data: Sequence[bool],
    made: Sequence[tuple[str, int | None, Product | None]],
    idle: Mapping[str, tuple[int, ...]],
) -> tuple[int, str] | None:
    """The product of which two sides are projected alike, and what to say; None where that may be meant.

    data: of each operation, whether it depends on the arguments; made: of queries, keys and values the last operation
    and the product before it; idle: shapes of what nobody used.
    Where nothing of that shape is idle, two may share their weights, as in Reformer; all three do not.
    """
    known = [(name, last, one) for name, last, one in made if one is not None and last is not None and not _weighs(one)]
    pairs = [(a, b) for a, b in combinations(known, 2) if a[2].number != b[2].number]
    lost = [*idle.values(), *_unread(operations)]
    unused = f", and {', '.join(name.partition(' ')[2] for name in list(idle)[:3])} is never used" if idle else ""
    for (one, before, first), (two, last, second) in pairs:
        weight = _weight(first, second, data)
        whole = [] if weight is None else _wholes(operations, first, weight)
        if any(sorted(shape) == sorted(mine) for shape in lost for mine in whole):
            return second.number, f"{one} and {two} have one projection{unused}."
        biases = _bias(operations, before), _bias(operations, last)
        if biases[0] and biases[0] == biases[1] and any(shape == operations[last].host.shape[-1:] for shape in lost):
            return last, f"{one} and {two} have one bias{unused}."
    weights = [_weight(first, second, data) for (_, _, first), (_, _, second) in pairs]
    common = weights[0] if len(weights) == 3 else None
    learned = [any(origin.startswith("parameter") for origin in one.origins) for _, _, one in known]
    if common is not None and all(learned) and all(x is not None and _equal(x, common) for x in weights):
        return known[1][2].number, "Queries, keys and values have one projection."
    return None


def _weighs(one: Product) -> bool:
    """Whether what is learned, or kept, has no axis of its own: it weighs rows and projects nothing."""
    sides = zip(one.origins, one.labels[:2], one.labels[1::-1], strict=True)
    return any(origin.startswith("parameter") and set(mine) <= set(other) for origin, mine, other in sides)


def alike(one: Sequence[Origin], two: Sequence[Origin]) -> bool:
    """Whether two attentions have the same queries, keys and values, each of them made once more."""
    again = all(None not in (x.source, y.source) and x.source != y.source for x, y in zip(one, two, strict=True))
    return again and all(near(x.form, y.form) for x, y in zip(one, two, strict=True))


def _weight(one: Product, two: Product, data: Sequence[bool]) -> np.ndarray | None:
    """The matrix that two products have in common, and not what it is applied to."""
    moves = moving(one, data)
    if moves == moving(two, data) and sum(moves) == 1:
        # What depends on the arguments is what is projected.
        side = moves.index(False)
        return (one.left, one.right)[side] if _one(one, two, side) else None
    if _one(one, two, 0) and 1 < one.left.ndim < one.right.ndim:
        return one.left
    return one.right if _one(one, two, 1) and one.right.ndim > 1 else None


def _wholes(operations: Sequence[Operation], one: Product, weight: np.ndarray) -> list[tuple[int, ...]]:
    """The shape of a matrix, and those of what it is a piece of, as one head's is of all."""
    found = [weight.shape]
    number = next((s for s, x in zip(one.sources, (one.left, one.right), strict=True) if x is weight), None)
    while number is not None and operations[number].name in PIECES:
        found.append(operations[number].operands[0].shape)
        number = operations[number].sources[0]
    return found


def _one(one: Product, two: Product, side: int) -> bool:
    """Whether a side of two products is one array; two of different names that begin with equal numbers are not."""
    names = {one.origins[side], two.origins[side]} - {""}
    return len(names) < 2 and _equal((one.left, one.right)[side], (two.left, two.right)[side])


def _equal(x: np.ndarray, y: np.ndarray) -> bool:
    return x is y or (x.shape == y.shape and np.array_equal(x, y))


def _bias(operations: Sequence[Operation], last: int) -> frozenset[str]:
    """What is learned or given and added last."""
    operation = operations[last]
    if operation.name not in ADDS and len(operation.operands) < 3:
        # A row that is multiplied is none.
        return frozenset()
    return frozenset(o for o, x in zip(operation.origins, operation.operands, strict=True) if o and x.ndim == 1)


def beside(
    operations: Sequence[Operation], outputs: Sequence[np.ndarray], keys: Origin, views: Sequence[int],
    made: Product | None,
) -> bool:  # fmt: skip
    """Whether of what was taken apart for some views, or made or projected as keys were, as much is never used."""
    users: list[list[int]] = [[] for _ in operations]
    for n, op in enumerate(operations):
        for source in {s for s in op.sources if s is not None}:
            users[source].append(n)
    # What only made what is never used is not used either.
    idle = set[int]()
    for n in range(len(operations))[::-1]:
        op = operations[n]
        end = not users[n] and (n + 1 == len(operations) or any(_equal(x, op.host) for x in outputs))
        if idle.issuperset(users[n]) and not end:
            idle.add(n)
    mine = [operations[n] for n in views if operations[n].name in PIECES]
    one = None if made is None else operations[made.number]
    last = None if keys.source is None else operations[keys.source]
    for n in idle:
        op = operations[n]
        if last is not None and not users[n] and _form(op) == _form(last):
            return True
        piece = op.name in PIECES and op.sources[:1] != (None,)
        if piece and any(op.sources[:1] == x.sources[:1] and op.host.shape == x.host.shape for x in mine):
            return True
        if one is not None and (*_form(op), _moving(op)) == (*_form(one), _moving(one)):
            return True
    return False


def _form(operation: Operation) -> tuple[str, tuple[int, ...]]:
    """What it is called, and the shape of what it comes to."""
    return operation.name, operation.host.shape


def _moving(operation: Operation) -> list[tuple[int | None, str]]:
    """What is no parameter among what an operation is given."""
    both = zip(operation.sources, operation.origins, strict=True)
    return [(s, o) for s, o in both if not o.startswith("parameter")]


def _unread(operations: Sequence[Operation]) -> list[tuple[int, ...]]:
    """Shapes of pieces that nobody used, of arrays whose other pieces are used."""
    used = {s for operation in operations for s in operation.sources if s is not None}
    pieces = [(n, op) for n, op in enumerate(operations) if op.name in PIECES and op.origins and op.origins[0]]
    kept = {op.origins[0] for n, op in pieces if n in used}
    return [op.host.shape for n, op in pieces if n not in used and op.origins[0] in kept]
