"""Which axes of weights and values hold samples, heads and queries, by what was multiplied."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from overt.torch.record.cells import Moved, Operand, Rows
from overt.torch.record.mixing import Axes, Role, swapped, unfolded
from overt.torch.record.origins import Origins
from overt.torch.record.softmaxes import Use


def role_of(origins: Origins, factor: Tensor, values: Tensor) -> Role:
    """What tells which role an axis of weights, or one of values, has."""

    def role(axis: int, features: int | None) -> str | None:
        if features is not None:
            origin = origins.of(values)
            return None if origin is None else origins.role(Operand(origin, (axis,), features))
        roles = map(origins.role, _scores(origins, factor, (axis,)))
        return next((x for x in roles if x is not None), None)

    return role


def ordered_use(origins: Origins, use: Use, factor: Tensor, values: Tensor, found: Axes) -> Use:
    """A use with its axes in order."""
    (own, _), (other, _) = found
    order, rows = _order(origins, factor, values, found, own[-2])
    if not rows:
        return use if order is None else replace(use, order=order)
    w, v, y, axis = use.weights, use.values, use.output, own[-2]
    if len(rows) == 1 and own[-3:-2] not in ((), (None,)) and other[-3:-2] in ((), (None,)):
        # Heads stand where queries do, and queries where samples do that share their values.
        w, y, own = swapped(w), swapped(y), (*own[:-3], own[-2], own[-3], own[-1])
    elif axis is not None:
        factor = origins.moved(unfolded, factor, rows, axis)
        w, v, y = unfolded(w, rows, -2), v.unsqueeze(-3), unfolded(y, rows, -2)
        own = tuple(None if a is None else a + (a >= axis) for a in own)
        own, other = (*own[:-2], axis, *own[-2:]), (*other[:-2], None, *other[-2:])
    order, _ = _order(origins, factor, values, ((own, tuple(w.shape)), (other, tuple(v.shape))))
    return replace(use, weights=w, values=v, output=y, order=order)


def _scores(origins: Origins, factor: Tensor, axes: tuple[int | None, ...], rows: int | None = None) -> list[Operand]:
    """Both factors of the product that weights come from, along axes of the weights."""
    origin = origins.of(factor)
    if origin is None or not origin.told:
        return []
    if isinstance(origin, Moved):
        return [Operand(origin, axes, None, rows, i) for i in (0, 1)]
    found = () if origin.product is None else (origin.product.operand(i, axes, rows) for i in (0, 1))
    return [x for x in found if x is not None]


def _order(
    origins: Origins, factor: Tensor, values: Tensor, found: Axes, rows: int | None = None
) -> tuple[np.ndarray | None, Rows]:
    """Which of the leading axes of a product hold samples and which heads, and what the axis of queries does."""
    (own, sizes), (other, more) = found
    count = max(len(own), len(other)) - 2
    leading = torch.broadcast_shapes(sizes[:-2], more[:-2])  # type: ignore[no-untyped-call]
    aligned: list[tuple[int | None, ...]] = [(None,) * (count + 2 - len(x)) + x[:-2] for x in (own, other)]
    operands = _scores(origins, factor, aligned[0], rows)
    if (origin := origins.of(values)) is not None:
        operands.append(Operand(origin, aligned[1], other[-1]))
    return origins.order(tuple(leading), operands)
