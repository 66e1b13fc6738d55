"""Masks whose result nobody used."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from overt.check.steps.pipeline import LOW, near
from overt.recorder.flow import VIEWS, sums_to_one
from overt.recorder.operations import Operation
from overt.recorder.products import made_of


def unused(
    operations: Sequence[Operation], outputs: Sequence[np.ndarray], data: Sequence[bool]
) -> Iterator[tuple[int, Operation]]:
    """What gives some cells of what it was given one value, and nobody used."""
    used = {s for op in operations for s in op.sources if s is not None}
    for i, op in enumerate(operations):
        lost = data[i] and i not in used and op.name != "setitem"
        if lost and op.host.dtype.kind == "f" and op.name not in VIEWS and _hides(op):
            kept = any(op.host.shape == o.shape and near(op.host, o) for o in outputs)
            yield from () if kept else [(i, op)]


def masks_dropped(
    operations: Sequence[Operation], outputs: Sequence[np.ndarray], data: Sequence[bool]
) -> Iterator[Operation]:
    """What hides some numbers, and nobody used, where a softmax is made of the same numbers."""
    for i, op in unused(operations, outputs, data):
        hid = {s for s, x in zip(op.sources, op.operands, strict=True)
               if s is not None and data[s] and x.shape == op.host.shape and not (x < LOW).any()}  # fmt: skip
        if hid and (op.host < LOW).any():
            soft = (n for n in range(i + 1, len(operations)) if sums_to_one(operations[n].host))
            if any(operations[n].host.size == op.host.size and hid & made_of(operations, n) for n in soft):
                yield op


def _hides(operation: Operation) -> bool:
    """Whether an operation changed some cells of what it was given, and these to one value."""
    y = operation.host
    changed = [~np.isclose(x, y, rtol=1e-6, atol=1e-12, equal_nan=True)
               for x in operation.operands
               if x.ndim and x.shape == y.shape[-x.ndim :] and x.dtype.kind == "f"]  # fmt: skip
    return any(bool(cells.any() and not cells.all() and len(np.unique(y[cells])) == 1) for cells in changed)
