"""Scores of several heads, made one after the other and stacked before one softmax, as those of all heads at once."""

from __future__ import annotations

import string
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from overt.recorder.flow import equal
from overt.recorder.fused import Written
from overt.recorder.operations import Operation
from overt.recorder.products import Product, contracted

STACKS = {"stack", "array", "asarray"}
# Operations between a product and where it is stacked.
_FAR = 8
# A product, and the operations that made of it what is stacked, in order.
_Chain = tuple[Product, list[int]]


def stacked(operations: Sequence[Operation]) -> tuple[list[Operation], list[int]] | None:
    """Operations with one product where several alike are stacked, and the number of each before; None without any."""
    found = {n: chains for n, operation in enumerate(operations) if (chains := _chains(operations, operation))}
    if not found:
        return None
    written = Written()
    for number, operation in written.each(operations):
        if number in found:
            _write(written, operations, operation, found[number])
    return written.operations, written.before


def _chains(operations: Sequence[Operation], operation: Operation) -> list[_Chain]:
    """Of what is stacked the products that it was made of, all in the same way; none where they are not alike."""
    found: list[_Chain] = []
    if operation.name not in STACKS or len(set(operation.sources)) < 2 or _axis(operation) is None:
        return []
    for source in operation.sources:
        number, path = source, list[int]()
        while number is not None and len(path) < _FAR:
            made = contracted(operations, number)
            if made is not None:
                break
            path.append(number)
            same = [s for s, x in zip(operations[number].sources, operations[number].operands, strict=True)
                    if s is not None and x.shape == operations[number].host.shape]  # fmt: skip
            number = same[0] if len(same) == 1 else None
        else:
            return []
        if made.result.ndim < 2 or made.result.shape != operation.operands[0].shape:
            # Rows, and single numbers, are stacked to one matrix of scores.
            return []
        found.append((made, path[::-1]))
    forms = {(made.labels, made.left.shape, made.right.shape, *(operations[n].name for n in path))
             for made, path in found}  # fmt: skip
    return found if len(forms) == 1 and _beside(operations, found) is not None else []


def _axis(operation: Operation) -> int | None:
    """The axis along which all operands lie one after the other."""
    y, parts = operation.host, operation.operands
    return next((a for a in range(y.ndim) if y.shape[a] == len(parts) and all(
        equal(y.take(i, a), x) for i, x in enumerate(parts))), None)  # fmt: skip


def _beside(
    operations: Sequence[Operation], chains: Sequence[_Chain]
) -> list[list[tuple[np.ndarray, int | None, str] | None]] | None:
    """Of each step its operands, None for the scores; nothing where those of the heads are not the same."""
    found = []
    for step in range(len(chains[0][1])):
        every = []
        for made, path in chains:
            one, before = operations[path[step]], [made.number, *path][step]
            values = zip(one.operands, one.sources, one.origins, strict=True)
            every.append([None if s == before else (x, s, o) for x, s, o in values])
        for others in zip(*every, strict=True):
            known = [other[0] for other in others if other is not None]
            if known and (len(known) < len(others) or not all(equal(x, known[0]) for x in known)):
                return None
        found.append(every[0])
    return found


def _write(written: Written, operations: Sequence[Operation], operation: Operation, chains: Sequence[_Chain]) -> None:
    made, axis, beside = chains[0][0], _axis(operation), _beside(operations, chains)
    assert axis is not None
    assert beside is not None
    sides = []
    for side in (0, 1):
        values = [((one.left, one.right)[side], None if (s := one.sources[side]) is None else written.now[s],
                   one.origins[side]) for one, _ in chains]  # fmt: skip
        sides.append(written.step("stack", np.stack([x for x, *_ in values]), *values))
    left, right, out = made.labels
    head = min(set(string.ascii_letters) - set(left + right + out))
    equation = f"{head}{left},{head}{right}->{out[:axis]}{head}{out[axis:]}"
    scores = np.stack([one.result for one, _ in chains], axis)
    line = operations[made.number].line
    value = written.keep(replace(
        operation, name="einsum", operands=tuple(x for x, *_ in sides), sources=tuple(s for _, s, _ in sides),
        origins=("", ""), array=scores, host=scores, detail=equation, line=line,
    ))  # fmt: skip
    for step, others in enumerate(beside):
        several = [operations[path[step]] for _, path in chains]
        values = [value if other is None else (other[0], None if other[1] is None else written.now[other[1]], other[2])
                  for other in others]  # fmt: skip
        whole = np.stack([one.host for one in several], axis)
        value = written.keep(replace(
            several[0], operands=tuple(x for x, *_ in values), sources=tuple(s for _, s, _ in values),
            origins=tuple(o for *_, o in values), array=whole, host=whole,
        ))  # fmt: skip
