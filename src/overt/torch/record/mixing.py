"""Where weights meet values: products of two tensors, by the axes that they sum over."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

import torch
from torch import Tensor

from overt.grid import numbered

# Products of which the second factor is turned.
TURNED = {"linear", "inner"}
# A softmax over another axis than the one that is summed over gives sums above 1.
_SLACK = 1.02
# A letter for an axis that no equation has.
_ONE = "\u0200"


def used(
    name: str, args: Any, weights: Tensor, values: Tensor, output: Tensor, place: int, heads: Callable[[], int | None]
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Weights (…, T, S), values (…, S, E) and output (…, T, E), if the product sums over the axis of the softmax."""
    values = values.detach()
    if name == "einsum":
        sorted_axes = _einsum(args[0], weights, values, output, place, heads)
        if sorted_axes is None:
            return None
        weights, values, output = sorted_axes
    elif name == "tensordot" and not (weights.ndim == values.ndim == 2 and 1 in args[2:]):
        return None
    elif name in TURNED:
        values = values.mT
        output = output.mT if place == 1 else output
    elif weights.ndim == 1 < values.ndim:
        # A vector is one row.
        weights, values, output = weights[None], values.mT if place == 1 else values, output.unsqueeze(-2)
    elif place == 1 and values.ndim > 1 and weights.ndim > 1:
        # A product of transposed factors, with features before positions.
        weights, values, output = weights.mT, values.mT, output.mT
    if weights.ndim < 2 or values.ndim < 2 or weights.shape[-1] != values.shape[-2]:
        return None
    if weights.shape[-2:-1] + values.shape[-1:] != output.shape[-2:]:
        return None
    numbered("the weights of a softmax", weights)
    if weights.numel() and not bool(weights.sum(-1, dtype=torch.float32).max() <= _SLACK):
        return None
    return weights, values, output


def _einsum(
    equation: Any, weights: Tensor, values: Tensor, output: Tensor, place: int, heads: Callable[[], int | None]
) -> tuple[Tensor, Tensor, Tensor] | None:
    if not isinstance(equation, str) or "->" not in equation:
        return None
    left, _, out = equation.replace(" ", "").partition("->")
    terms = left.split(",")
    if len(terms) != 2:
        return None
    first, second = terms[place], terms[1 - place]
    axes = []
    for term, x in ((first, weights), (second, values), (out, output)):
        # Letters that no equation uses stand for the axes of an ellipsis.
        spare = "".join(map(chr, range(0x100, 0x100 + x.ndim - len(term.replace("...", "")))))
        axes.append(term.replace("...", spare))
    w, v, y = axes
    shared = [a for a in w if a in v and a in y]
    keys = [a for a in w if a in v and a not in y]
    queries = [a for a in w if a not in v and a in y]
    features = [a for a in v if a not in w and a in y]
    if not (len(keys) == len(features) == 1) or any(len(set(a)) < len(a) for a in axes):
        return None
    if not queries:
        # One query, of which nobody speaks, unless each query has keys of its own.
        if not shared or weights.shape[w.index(shared[-1])] != heads():
            return None
        queries, w, y = [_ONE], w + _ONE, y + _ONE
        weights, output = weights.unsqueeze(-1), output.unsqueeze(-1)
    # Heads may share their values; which axis these are is told by how many there are.
    sizes = dict(zip(w, weights.shape, strict=True))
    several = [a for a in queries if _several(sizes, queries, a, shared, heads)] if len(queries) > 1 else queries
    if not several:
        return None
    query = several[-1]
    rest = [a for a in queries if a != query]
    values = values.reshape(*values.shape, *(1 for _ in rest)).expand(*values.shape, *(sizes[a] for a in rest))
    v += "".join(rest)
    leading = [a for a in w if a in shared or a in rest]
    if not (len(w) == len(leading) + 2 == len(v) == len(y)):
        return None
    orders = ([*leading, query, *keys], w), (leading + keys + features, v), ([*leading, query, *features], y)
    return tuple(  # type: ignore[return-value]
        x.permute([have.index(a) for a in want])
        for (want, have), x in zip(orders, (weights, values, output), strict=True)
    )


def _several(
    sizes: Mapping[str, int], queries: list[str], query: str, shared: list[str], heads: Callable[[], int | None]
) -> bool:
    """Whether the axes beside that of the queries are the heads, all or those of each group."""
    count = prod(sizes[a] for a in queries if a != query)
    return heads() in (count, *(count * sizes[a] for a in shared[-1:]))
