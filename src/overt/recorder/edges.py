"""Attention over the edges of a graph, as attention of nodes over their edges.

What is gathered by the ends of edges and added up by their targets is written anew as arrays (nodes, edges of a node,
...), where every node has as many edges: then an edge's weight has a row and a key like any other.  So is what is added
up piece by piece of one row, where all pieces are as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from overt.recorder.operations import Operation

# What adds up, by an index, the rows of what it is given last.
ADDED = {"index_add", "scatter_add", "scatter-add", "add.at"}
# What is said of a sum over edges that is written as one of rows.
EDGES = "of edges"
_LARGEST = {"scatter_reduce", "index_reduce", "scatter-max", "maximum.at"}
# The same by where each piece begins.
_PIECES = {"add.reduceat": "sum", "maximum.reduceat": "amax"}


def regular(operations: Sequence[Operation]) -> list[Operation] | None:
    """Operations with a row of edges for each node; None where no sums over edges were seen that are as many a node."""
    summed = [(found, op) for op in operations if (found := _targets(op)) is not None]
    if not summed:
        return None
    # What the last sum is taken by; a softmax may go by something else.
    targets, last = summed[-1]
    source = last.sources[_given(last)]
    mixed = last if source is None else operations[source]
    nodes, edges = len(np.unique(targets)), len(targets)
    order = np.argsort(targets, kind="stable")

    def rows(x: np.ndarray, whole: bool = False) -> np.ndarray:
        """Nodes × edges in front, or nodes × 1 where the edges of a node are alike."""
        if not x.ndim or len(x) != edges:
            return x
        laid = x[order].reshape(nodes, edges // nodes, *x.shape[1:])
        alike = not whole and np.array_equal(laid, np.broadcast_to(laid[:, :1], laid.shape), equal_nan=True)
        return laid[:, :1] if alike else laid

    def written(operation: Operation) -> Operation:
        own = _targets(operation)
        if own is not None and np.array_equal(own, targets):
            name, at = _PIECES.get(operation.name, "sum" if operation.name in ADDED else "amax"), _given(operation)
            return replace(
                operation, name=name, operands=(rows(operation.operands[at]),), sources=(operation.sources[at],),
                origins=(operation.origins[at],), detail=EDGES,
            )  # fmt: skip
        # What is weighed has edges, even if it says the same of all.
        laid, host = tuple(rows(x, operation is mixed) for x in operation.operands), rows(operation.host)
        detail = operation.detail
        if operation.name == "einsum" and "->" in detail:
            before, _, after = detail.partition("->")
            grown = [y.ndim > x.ndim for x, y in zip((*operation.operands, operation.host), (*laid, host), strict=True)]
            one, two = (["Ⓝ" + a if more else a for a, more in zip(axes, grown[start:], strict=False)]
                        for axes, start in ((before.split(","), 0), ([after], len(laid))))  # fmt: skip
            detail = ",".join(one) + "->" + two[0]
        return replace(operation, operands=laid, host=host, detail=detail)

    return [written(operation) for operation in operations]


def _given(operation: Operation) -> int:
    """The operand that is added up, of which one takes the largest."""
    return 0 if operation.name in _PIECES else -1


def _targets(operation: Operation) -> np.ndarray | None:
    """The node of each edge, of a sum or a maximum over edges into zeros, where every node has as many edges, some."""
    if operation.name in _PIECES and len(operation.operands) == 2:
        given, starts = operation.operands
        sizes = np.diff([*starts.ravel(), len(given) if given.ndim else 0])
        even = sizes.size > 0 and sizes[0] > 1 and (sizes == sizes[0]).all() and len(operation.host) == sizes.size
        return np.repeat(np.arange(sizes.size), sizes) if even else None
    if operation.name not in ADDED | _LARGEST or len(operation.operands) != 3:
        return None
    into, index, given = operation.operands
    if index.dtype.kind not in "iu" or not (index.ndim and index.size) or not given.ndim or len(index) != len(given):
        return None
    targets = index.reshape(len(index), -1)
    if (targets != targets[:, :1]).any() or len(given) == len(into) or (operation.name in ADDED and into.any()):
        return None
    counts = np.bincount(targets[:, 0], minlength=len(into))
    return targets[:, 0] if counts.min() == counts.max() > 1 else None
