"""What the operations of an attention are: queries, keys, scores, mask, weights, values, output.

A fact of numbers and not of names: an array of positive numbers that sum to 1 along an axis, contracted along it with
another array afterwards, is weights and values; going back from the weights, a product as large as they are is the
scores, and its factors are queries and keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from overt.recorder.operations import Operation

_PRODUCTS = {"matmul", "dot", "einsum", "bmm", "mm", "baddbmm", "tensordot", "inner", "vecdot", "dot_general", "mv"}
_FUSED = {"scaled_dot_product_attention", "multi_head_attention_forward"}
_SUMS = {"sum", "reduce_sum"}
# As low as a score is only where somebody put it: additive masks of half types begin here.
_HIDDEN = -1e4


def roles(operations: Sequence[Operation]) -> dict[int, dict[str, int | None]]:
    """The attentions among operations: for each, by the number of the one that gives its output, the numbers by role.

    A role that no operation has, because it was an argument, is None.
    """
    found: dict[int, dict[str, int | None]] = {}
    taken: set[int] = set()
    for number, operation in enumerate(operations):
        if operation.name in _FUSED:
            names = ("queries", "keys", "values")
            found[number] = dict(zip(names, operation.sources, strict=False)) | {"output": number}
            continue
        axis = _normalised(operation.host)
        if axis is None or number in taken:
            continue
        same = _followed(operations, number)
        mixed = _mixed(operations, same, operation.host.shape[axis])
        taken |= same
        if mixed is None:
            continue
        output, values = mixed
        found[output] = _scoring(operations, number) | {"weights": number, "values": values, "output": output}
    return found


def _normalised(x: np.ndarray) -> int | None:
    """The axis along which positive numbers sum to 1, the last one first; rows of zeros see nothing."""
    if x.dtype.kind != "f" or x.ndim < 1 or not x.size or not np.isfinite(x).all() or x.min() < 0:
        return None
    for axis in reversed(range(x.ndim)):
        sums = x.sum(axis=axis, dtype=np.float64)
        near = np.abs(sums - 1) < (1e-2 if x.itemsize < 4 else 1e-4)
        # What is 0 and 1 everywhere is a mask or a choice, unless it was weighed.
        if x.shape[axis] > 1 and near.any() and (near | (sums == 0)).all():
            return axis
    return None


def _followed(operations: Sequence[Operation], number: int) -> set[int]:
    """The same numbers in other shapes, or some of them dropped: whatever has one source and as many entries."""
    same = {number}
    size = operations[number].host.size
    for later in range(number + 1, len(operations)):
        operation = operations[later]
        computed = {source for source in operation.sources if source is not None}
        if computed and computed <= same and operation.host.size == size and operation.name not in _PRODUCTS:
            same.add(later)
    return same


def _mixed(operations: Sequence[Operation], same: set[int], keys: int) -> tuple[int, int | None] | None:
    """The operation that contracts weights with values, and the one that made the values."""
    for later in range(min(same) + 1, len(operations)):
        operation = operations[later]
        places = [i for i, source in enumerate(operation.sources) if source in same]
        if len(places) != 1 or len(operation.sources) != 2:
            continue
        values = operation.sources[1 - places[0]]
        if keys not in operation.operands[1 - places[0]].shape:
            continue
        if operation.name in _PRODUCTS:
            return later, values
        # Weights times values, summed up in the next step.
        for after in range(later + 1, len(operations)):
            if later in operations[after].sources and operations[after].name in _SUMS:
                return after, values
    return None


def _scoring(operations: Sequence[Operation], weights: int) -> dict[str, int | None]:
    """Queries, keys, scores and the mask's step, going back from the weights."""
    size = operations[weights].host.size
    back = list(_before(operations, weights, size))
    scores = next((i for i in back if operations[i].name in _PRODUCTS and len(operations[i].sources) == 2), None)
    if scores is None:
        # A score that is no product of two: the first array as large as the weights that leads to them.
        return {"scores": min(back)} if back else {}
    queries, keys = operations[scores].sources
    if _keys_first(operations[scores], operations[weights]):
        queries, keys = keys, queries
    found: dict[str, int | None] = {"queries": queries, "keys": keys, "scores": scores}
    for i in sorted(back):
        if i <= scores:
            continue
        if "scaled" not in found and _scaled(operations[scores].host, operations[i].host):
            found["scaled"] = i
        if operations[i].host.min(initial=0) <= _HIDDEN < operations[scores].host.min(initial=0):
            found["masked"] = i
            break
    return found


def _scaled(x: np.ndarray, y: np.ndarray) -> bool:
    """Whether y is x times one number."""
    if x.shape != y.shape or np.array_equal(x, y):
        return False
    factor = y.reshape(-1)[at] / largest if (largest := x.reshape(-1)[at := int(np.abs(x).argmax())]) else 0
    return bool(np.isfinite(factor)) and np.allclose(y, factor * x, rtol=1e-2 if x.itemsize < 4 else 1e-5, atol=0)


def _before(operations: Sequence[Operation], number: int, size: int) -> Iterator[int]:
    """What leads to an operation through arrays of one size, nearest first; nothing behind a product."""
    open_, seen = [number], {number}
    while open_:
        number = max(open_)
        open_.remove(number)
        for source in operations[number].sources:
            if source is not None and source not in seen and operations[source].host.size == size:
                seen.add(source)
                yield source
                if operations[source].name not in _PRODUCTS:
                    open_.append(source)


def _keys_first(scores: Operation, weights: Operation) -> bool:
    """Whether the first factor of the scores has a row for each key: where the weights' axis is not its last."""
    if scores.name == "einsum" and "->" in scores.detail and scores.host.shape == weights.host.shape:
        left, _, out = scores.detail.partition("->")
        axis = _normalised(weights.host)
        return axis is not None and len(out) == weights.host.ndim and out[axis] in left.partition(",")[0]
    axis, n = _normalised(weights.host), weights.host.ndim
    return scores.host.shape == weights.host.shape and n > 1 and axis == n - 2 and prod(weights.host.shape[-2:]) > 1
