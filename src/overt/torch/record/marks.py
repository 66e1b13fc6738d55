"""A few numbers of every key and value, by which these are recognised where they are seen again."""

from __future__ import annotations

import torch
from torch import Tensor

from overt.torch.record.call import Call

# The type of bits as many as those of a number.
_BITS = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def marks(call: Call) -> Tensor:
    """Bits of some numbers of the first head, (B, S, ≤ 8): four of each value and, where keys are known, of each key.

    Keys tell places apart where they are rotated, which some do in their first numbers and some in their last.
    """
    v, k = call.v[:, 0], call.k[:, 0]
    some = torch.cat([v[..., :4], k[..., :2], k[..., 2:][..., -2:]], -1)
    return some.view(_BITS[some.dtype.itemsize])


ONE = torch.ones(1, 1, dtype=torch.bool)
"""The relation of one row to one that it continues."""
_NONE, _FIRST = torch.zeros(1, 1, dtype=torch.bool), torch.zeros(1, dtype=torch.int64)


def relation(new: Tensor, known: Tensor) -> Tensor:
    """(B, B'): which rows of the new marks are the same as which of the known ones, in all columns."""
    if len(new) == len(known) == 1:
        return ONE if torch.equal(new, known) else _NONE
    return torch.stack([(row == known).all(-1).all(-1) for row in new]).cpu()


def alike(new: Tensor, known: Tensor) -> Tensor:
    """(B, B'): how many columns are the same before the first that is not."""
    other = torch.stack([(row != known).any(-1) for row in new])
    return torch.cat([other, torch.ones_like(other[..., :1])], -1).byte().argmax(-1).cpu()


def chosen(rows: Tensor) -> Tensor:
    """Which known row each row continues, (B,): its own, or the first that may be."""
    if rows is ONE:
        return _FIRST
    first = rows.byte().argmax(-1)
    return torch.where(rows.diagonal(), torch.arange(len(rows)), first) if rows.shape[0] == rows.shape[1] else first


def complete(rows: Tensor) -> bool:
    """Whether each row continues one."""
    return rows is ONE or bool(rows.any(1).all())


def certain(rows: Tensor, gone: Tensor) -> bool:
    """Whether all known rows that a row may continue are the same in columns that it does not show any more."""
    if rows is ONE:
        return True
    several = rows[rows.sum(-1) > 1] if gone.shape[1] else ()
    return all(bool((gone[some] == gone[some][:1]).all()) for row in several for some in [row.nonzero()[:, 0]])
