"""Where weights meet values: products of two tensors, by the axes that they sum over."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from overt.grid import numbered
from overt.torch.record.kernel import SILENT

# Products of which the second factor is turned.
TURNED = {"linear", "inner"}
# What has a sum beside its two factors, first.
ADDED = {"baddbmm", "baddbmm_", "addbmm", "addbmm_", "addmm", "addmm_", "addmv", "addmv_", "_sparse_addmm"}
# A softmax over another axis than the one that is summed over gives sums above 1.
_SLACK = 1.02
# A letter for an axis that no equation has.
_ONE = "\u0200"
_is_wrapped = torch._C._functorch.is_functorch_wrapped_tensor


# What an axis of the weights, or one of the values with that of their features, holds: "heads" or "samples", which are
# all that are no heads; None where nobody knows.
Role = Callable[[int, int | None], str | None]
# Of weights and of values, which axis each of their axes in order is, and how large these are.
Axes = tuple[tuple[tuple[int | None, ...], tuple[int, ...]], ...]


def used(
    name: str, equation: str | None, weights: Tensor, values: Tensor, output: Tensor, place: int, role: Role
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Weights (…, T, S), values (…, S, E) and output (…, T, E), if the product sums over the axis of the softmax."""
    found = arranged(name, equation, weights, values.detach(), output, place, role)
    if found is None:
        return None
    weights, values, output = found
    if weights.ndim < 2 or values.ndim < 2 or weights.shape[-1] != values.shape[-2]:
        return None
    if weights.shape[-2:-1] + values.shape[-1:] != output.shape[-2:]:
        return None
    numbered("the weights of a softmax", weights)
    if weights.numel() and not bool(weights.sum(-1, dtype=torch.float32).max() <= _SLACK):
        return None
    return found


def arranged(
    name: str, equation: str | None, weights: Tensor, values: Tensor, output: Tensor, place: int, role: Role
) -> tuple[Tensor, Tensor, Tensor] | None:
    """Views of the factors and of the product, with their axes in order: queries, keys and features are the last."""
    if equation is not None:
        return _einsum(equation, weights, values, output, place, role)
    if name == "einsum":
        return None
    if name in TURNED:
        return weights, values.mT, output.mT if place == 1 else output
    if weights.ndim == 1 < values.ndim:
        # A vector is one row.
        return weights[None], values.mT if place == 1 else values, output.unsqueeze(-2)
    if place == 1 and values.ndim > 1 and weights.ndim > 1:
        # A product of transposed factors, with features before positions.
        return weights.mT, values.mT, output.mT
    return weights, values, output


def axes(name: str, equation: str | None, shapes: Sequence[tuple[int, ...]], place: int, role: Role) -> Axes | None:
    """Of weights and of values, as ``arranged`` gives them: which axis each axis is, None for none, and sizes."""
    # Strides that are all different name the axes.
    named = [torch.empty_strided(x, [2**i for i in range(len(x))], device="meta") for x in shapes]
    found = arranged(name, equation, named[0], named[1], named[2], place, role)
    if found is None:
        return None
    return tuple(
        (
            tuple(n.bit_length() - 1 if n and size > 1 else None for n, size in zip(x.stride(), x.shape, strict=True)),
            tuple(x.shape),
        )
        for x in found[:2]
    )


def shows(x: Tensor) -> bool:
    """Whether somebody may look at the numbers of a tensor."""
    return x.layout is torch.strided and not (x.is_nested or x.is_meta or _is_wrapped(x))


def whole(weights: Tensor) -> bool:
    """Whether all rows of weights sum to 1, or to 0 where a query sees nothing."""
    sums = weights.sum(-1, dtype=torch.float32)
    return bool(((sums > 2 - _SLACK) | (sums == 0)).all())


def totals(letters: Sequence[str] | None, values: Tensor, place: int) -> str:
    """Whether a product only adds up what is mixed, "all" of it or "some", for there the values are all the same.

    Where they are 0 it leaves something out.
    """
    summed = [] if letters is None else [i for i, a in enumerate(letters[place]) if a not in letters[2]]
    if len(summed) != 1 or not values.numel() or not shows(values):
        return ""
    largest = values.amax(summed)
    alike = ((values == largest.unsqueeze(summed[0])) | (values == 0)).all(summed[0]) & (largest > 0)
    return "all" if bool(alike.all()) else "some" if bool(alike.any()) else ""


def ordered(x: Tensor, order: np.ndarray) -> Tensor:
    """(N, …) as (B, H, …), a view if that is possible."""
    B, H = order.shape
    if np.array_equal(order, np.arange(B * H).reshape(B, H)):
        return x.reshape(B, H, *x.shape[1:])
    if np.array_equal(order.T, np.arange(B * H).reshape(H, B)):
        return x.reshape(H, B, *x.shape[1:]).transpose(0, 1)
    return x[torch.from_numpy(order).to(x.device)]


def swapped(x: Tensor) -> Tensor:
    """With heads that stood where queries do before these."""
    return x.transpose(-2, -3)


def unfolded(x: Tensor, rows: Sequence[Sequence[int]], axis: int) -> Tensor:
    """(…, H, T, …), of an axis of which the rows (T, H) are those of queries and heads."""
    first = axis if axis >= 0 else axis - 1
    return ordered(x.movedim(axis, 0), np.array(rows).T).movedim((0, 1), (first, first + 1))


def _einsum(
    equation: str, weights: Tensor, values: Tensor, output: Tensor, place: int, role: Role
) -> tuple[Tensor, Tensor, Tensor] | None:
    left, _, y = equation.partition("->")
    w, v = left.split(",")[:: -1 if place else 1]
    shared = [a for a in w if a in v and a in y]
    keys = [a for a in w if a in v and a not in y]
    queries = [a for a in w if a not in v and a in y]
    features = [a for a in v if a not in w and a in y]
    if len(keys) != 1 or not features or any(len(set(a)) < len(a) for a in (w, v, y)):
        return None
    if not queries:
        # One query, of which nobody speaks, unless each query has keys of its own.
        if len(shared) > 1 and role(v.index(shared[-1]), v.index(features[0])) != "heads":
            return None
        queries, w, y = [_ONE], w + _ONE, y + _ONE
        weights, output = weights.unsqueeze(-1), output.unsqueeze(-1)
    # Heads may share their values.
    query = queries[0] if len(queries) == 1 else _query(queries, w, weights, role)
    if query is None:
        return None
    sizes = dict(zip(w, weights.shape, strict=True))
    rest = [a for a in queries if a != query]
    values = values.reshape(*values.shape, *(1 for _ in rest)).expand(*values.shape, *(sizes[a] for a in rest))
    v += "".join(rest)
    leading = [a for a in w if a in shared or a in rest]
    more = len(features) - 1
    if not (len(w) == len(leading) + 2 == len(v) - more == len(y) - more):
        return None
    orders = ([*leading, query, *keys], w), (leading + keys + features, v), ([*leading, query, *features], y)
    weights, values, output = (
        x.permute([have.index(a) for a in want])
        for (want, have), x in zip(orders, (weights, values, output), strict=True)
    )
    # Of what weights are shared by, each is as good as more features.
    return weights, _flat(values, more), _flat(output, more)


def _flat(x: Tensor, more: int) -> Tensor:
    """With several last axes as one; without numbers, and so without a copy, the last of them."""
    for _ in range(more):
        x = x.select(-2, 0) if x.is_meta else x.flatten(-2)
    return x


def _query(letters: Sequence[str], w: str, weights: Tensor, role: Role) -> str | None:
    """The one axis of several that is no axis of heads; None if that is not known."""
    roles = {a: role(w.index(a), None) for a in letters if weights.shape[w.index(a)] > 1}
    others = [a for a, found in roles.items() if found != "heads"]
    if not others:
        # Of one cell each axis is as good as another.
        return next((a for a in letters if a not in roles), None)
    return others[0] if len(others) == 1 and roles[others[0]] else None


def mixed(name: str, factors: Sequence[Tensor], result: Tensor) -> Tensor:
    """What a product gives by itself: where something is added to it, nobody sees that in the sum."""
    if name not in ADDED:
        return result.detach()
    with SILENT(), torch.no_grad():
        return torch.matmul(*factors)
