"""The trust in a record: at some rows of every call its weights, times the values, give the model's own output."""

from __future__ import annotations

import torch
from torch import Tensor

from overt.attended import Attended
from overt.torch.record.arrays import owned
from overt.torch.record.call import Call

# How far half types round what is added up, in units of their own last place.
_PLACES = 4


def complete(call: Call) -> None:
    """Give a call the log-sum-exp that its kernel kept to itself.

    Queries that see nothing get −∞, whatever the kernel says of them.
    """
    if call.weights is not None:
        call.lse = call.weights.new_zeros(call.weights.shape[:3], dtype=call.wide)
        return
    if call.lse is None:
        seen = Attended(call.problem())
        call.lse = owned(seen.lse).to(call.q.device)
        call.along = owned(seen.received()), owned(seen.entropy())
    blind = call.visible.blind
    if blind.any():
        call.lse = call.lse.masked_fill(torch.from_numpy(blind).to(call.lse.device), -torch.inf)


def deviation(call: Call) -> tuple[float, float] | None:
    """Largest difference from the model's output at three rows, and how much of it rounding explains.

    None where there is nothing to compare: no rows, or weights that were dropped after they were made.
    """
    (B, H, T, S), G = call.sizes, call.v.shape[1]
    if call.dropped or not (B and H and T and S):
        return None
    at = sorted({0, T // 2, T - 1})
    weights = call.rows(at)
    values = call.v.to(call.wide)
    # What nobody sees may be anything.
    values = torch.where(values.isfinite(), values, 0)
    mixed = (weights.reshape(B, G, H // G * len(at), S) @ values).reshape(B, H, len(at), -1)
    sees = weights.sum(-1, keepdim=True) > 0
    off = (mixed - call.output[:, :, at].to(call.wide)).abs()
    off = torch.where(sees, off, 0).amax()
    return off.item(), _tolerance(call, at, values)


def _tolerance(call: Call, at: list[int], values: Tensor) -> float:
    """Rounding of the sum of values, and of scores as large as these may be."""
    largest = float(values.abs().amax())
    eps = torch.finfo(call.output.dtype).eps
    scores = 0.0
    if call.weights is None:
        q, k = (x.to(call.wide) for x in (call.q[:, :, at], call.k))
        scores = float(q.norm(dim=-1).amax() * k.norm(dim=-1).nan_to_num(0, 0, 0).amax()) * abs(call.scale)
        if call.softcap is not None:
            scores = min(scores, call.softcap)
    wide = torch.finfo(call.wide).eps
    return largest * (_PLACES * eps + wide * (256 + 4 * scores)) + 1e-30
