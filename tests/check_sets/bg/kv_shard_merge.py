"""Decode attention when the KV cache of a request lies on several shards.

Every shard answers with its normalised partial output and the log-sum-exp of its scores,
as the kernels do it (exp2, since that is one instruction); the scheduler merges them.
"""
import math
from typing import List, NamedTuple, Sequence

import torch

LOG2E = 1.4426950408889634


class Partial(NamedTuple):
    out: torch.Tensor  # [H, d]
    lse: torch.Tensor  # [H], base 2


class Shard:
    """A piece of the cache: keys and values [n, H, d]."""

    def __init__(self, heads: int, dim: int):
        self.k = torch.empty(0, heads, dim)
        self.v = torch.empty(0, heads, dim)

    def append(self, k: torch.Tensor, v: torch.Tensor) -> None:
        self.k = torch.cat([self.k, k[None].to(self.k)])
        self.v = torch.cat([self.v, v[None].to(self.v)])

    def __len__(self):
        return self.k.shape[0]


def shard_partial(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> Partial:
    """q [H, d]; k, v [n, H, d], n > 0."""
    s = torch.einsum("hd,nhd->hn", q, k) * (LOG2E / math.sqrt(q.shape[-1]))
    m = s.amax(dim=-1, keepdim=True)
    p = torch.exp2(s - m)
    z = p.sum(-1, keepdim=True)
    out = torch.einsum("hn,nhd->hd", p / z, v)
    return Partial(out, (m + torch.log2(z)).squeeze(-1))


def merge(parts: Sequence[Partial]) -> Partial:
    lse = torch.stack([p.lse for p in parts])  # [P, H]
    out = torch.stack([p.out for p in parts])  # [P, H, d]
    top = lse.amax(dim=0)
    w = torch.exp(lse - top)
    z = w.sum(0)
    merged = (w / z)[..., None] * out
    return Partial(merged.sum(0), top + torch.log2(z))


def attend_sharded(q: torch.Tensor, ks: List[torch.Tensor], vs: List[torch.Tensor]) -> torch.Tensor:
    """Attention of one token q [H, d] over all shards; equals one softmax over the
    concatenated keys.  Empty shards are skipped."""
    parts = [shard_partial(q, k, v) for k, v in zip(ks, vs) if k.shape[0]]
    if not parts:
        return torch.zeros_like(q)
    return merge(parts).out


def decode_step(q, shards: List[Shard]):
    return attend_sharded(q, [s.k for s in shards], [s.v for s in shards])
