"""Sequence-parallel attention, simulated on one host: every rank holds a slice of keys and values,
the partial results travel with their natural log-sum-exp and are merged pairwise."""
from dataclasses import dataclass
from typing import List, Optional

import torch


@dataclass
class Partial:
    out: torch.Tensor      # [B, Lq, H, D]
    lse: torch.Tensor      # [B, H, Lq]   natural log


def local_attention(q, k, v, keep: Optional[torch.Tensor]) -> Partial:
    """keep: bool [B, Lk_local], True = valid key."""
    s = torch.einsum("blhd,bmhd->bhlm", q.float(), k.float()) * q.shape[-1] ** -0.5
    if keep is not None:
        s = s.masked_fill(~keep[:, None, None, :], float("-inf"))
    lse = torch.logsumexp(s, dim=-1)
    base = torch.where(torch.isinf(lse), torch.zeros_like(lse), lse)
    p = torch.exp(s - base.unsqueeze(-1))
    return Partial(torch.einsum("bhlm,bmhd->blhd", p, v.float()), lse)


def merge(a: Partial, b: Partial) -> Partial:
    lse = torch.logaddexp(a.lse, b.lse)
    base = torch.where(torch.isinf(lse), torch.zeros_like(lse), lse)
    wa = torch.exp(a.lse - base).transpose(1, 2).unsqueeze(-1)
    wb = torch.exp(b.lse - base).transpose(1, 2).unsqueeze(-1)
    return Partial(a.out * wa + b.out * wb, lse)


class RingAttention:
    def __init__(self, world: int):
        self.world = world

    def _shards(self, t: torch.Tensor) -> List[torch.Tensor]:
        return list(torch.tensor_split(t, self.world, dim=1))

    def __call__(self, q, k, v, keep=None):
        if k.shape[1] < self.world:
            raise ValueError("fewer keys than ranks")
        ks, vs = self._shards(k), self._shards(v)
        ms = self._shards(keep) if keep is not None else [None] * self.world
        state = local_attention(q, ks[0], vs[0], ms[0])
        for r in range(1, self.world):
            state = merge(state, local_attention(q, ks[r], vs[r], ms[r]))
        return state.out.to(q.dtype)


def bytes_on_wire(B, Lk, H, D, world, itemsize=2):
    return 2 * B * Lk * H * D * itemsize * (world - 1) // world
