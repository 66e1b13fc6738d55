"""The trust in a record: at some rows of every call its weights, times the values, give the model's own output."""

from __future__ import annotations

from functools import cache
from math import isfinite

import numpy as np
import torch
from torch import Tensor

from overt.attended import Attended
from overt.torch import blocks
from overt.torch.record.arrays import owned
from overt.torch.record.call import Call

# How far half types round what is added up, in units of their own last place.
_PLACES = 4


def complete(call: Call) -> None:
    """Give a call the log-sum-exp that its kernel kept to itself.

    Queries that see nothing get −∞, whatever the kernel says of them.
    """
    if call.weights is not None:
        # Of weights that sum to 1, or are all 0 where a query sees nothing.
        call.lse = torch.where((call.weights > 0).any(-1), 0.0, -torch.inf).to(call.wide)
        return
    call.settle()
    if call.lse is None and call.near:
        seen = Attended(call.problem())
        call.lse = owned(seen.lse)
        call.along = owned(seen.received()), owned(seen.entropy())
    elif call.lse is None:
        call.lse = blocks.forward(blocks.widened(call.problem()))[1].to(call.wide)
    call.lse = call.lse.contiguous()
    blind = call.visible.blind
    if blind is not None:
        call.lse = call.lse.masked_fill(torch.from_numpy(blind).to(call.lse.device), -torch.inf)


def rows(call: Call) -> range:
    """The queries that are compared: the last one, one in the middle and one of the first.

    None of them where there is nothing to compare: no cells, or weights that were dropped after they were made.
    """
    B, H, T, S = call.sizes
    if call.dropped or not (B and H and T and S):
        return range(0)
    step = max((T - 1) // 2, 1)
    return range((T - 1) % step, T, step)


def deviation(call: Call, compared: range, known: np.ndarray | None = None) -> tuple[float, float] | None:
    """Largest difference from the model's output at some rows, and how much of it rounding explains; None without any.

    known: the difference at these rows, and the largest number there, (…, 2), where somebody has looked already.
    """
    if not compared:
        return None
    at = slice(compared.start, None, compared.step)
    # Nothing that was mixed is larger than what it was mixed of: mostly that is enough, and not all values are asked.
    if known is not None:
        each = known.ravel().tolist()
        tolerance = _tolerance(call, max(each[1::2]), 0)
        # So few are compared faster one by one; NaN is no number that is small enough.
        if all(off <= tolerance for off in each[::2]):
            return max(each[::2]), tolerance
    weights, values = call.rows(at), call.v.to(call.wide)
    found, mixed = _off(call, weights, values, at)
    tolerance = _tolerance(call, mixed, 0)
    if found <= tolerance:
        return found, tolerance
    largest = _largest(values)
    if not isfinite(largest):
        # What nobody sees may be anything.
        values = torch.where(values.isfinite(), values, 0)
        largest = _largest(values)
        found, _ = _off(call, weights, values, at)
    tolerance = _tolerance(call, largest, 0)
    # How large scores may be is asked only where that matters.
    if not found <= tolerance and call.weights is None:
        tolerance = _tolerance(call, largest, _scores(call, at))
    return found, tolerance


def _off(call: Call, weights: Tensor, values: Tensor, at: slice) -> tuple[float, float]:
    """Largest difference of weights times values from the model's output at some rows, and the largest of these."""
    (B, H, _, S), G = call.sizes, call.v.shape[1]
    mixed = (weights.reshape(B, G, -1, S) @ values).reshape(B, H, weights.shape[2], -1)
    largest = mixed.abs().amax()
    off = mixed.sub_(call.output[:, :, at]).abs_()
    if call.visible.blind is not None or call.sinks is not None:
        off = torch.where(weights.sum(-1, keepdim=True) > 0, off, 0)
    found, most = torch.stack((off.amax(), largest)).tolist()
    return found, most


def _tolerance(call: Call, largest: float, scores: float) -> float:
    """Rounding of the sum of values up to the largest, and of scores as large as these may be."""
    sums, each = _rounding(call.output.dtype, call.wide)
    return largest * (sums + each * scores) + 1e-30


@cache
def _rounding(output: torch.dtype, wide: torch.dtype) -> tuple[float, float]:
    """What rounding makes of a sum, relative to what is added up, and how much more for each unit of the scores."""
    eps, own = torch.finfo(output).eps, torch.finfo(wide).eps
    return _PLACES * eps + 256 * own, 4 * own


def _scores(call: Call, at: slice) -> float:
    """No score of these rows is larger."""
    q, k = (torch.linalg.vector_norm(x, dim=-1, dtype=call.wide) for x in (call.q[:, :, at], call.k))
    most = (q.amax() * k.nan_to_num(0, 0, 0).amax()).item() * abs(call.scale)
    return most if call.softcap is None else min(most, call.softcap)


def _largest(x: Tensor) -> float:
    """The largest size of any number, not finite unless all are."""
    low, high = x.aminmax()
    return max(-low.item(), high.item())
