"""Split-KV ("flash decoding") attention for the decode stage of the server.

One query token per sequence against a long cache.  The cache is cut into splits, every
split is worked on by its own worker (another SM, another process, another node), and the
partial results are merged.  A partial result is the pair

    o    attention output of the split, normalised within the split
    lse  log(sum(exp(score))) of the split, natural logarithm

Prefix sharing uses the same pairs: the common system prompt is computed once for the
whole batch and merged with the private part of each sequence.
"""
import math
from typing import List, Optional, Tuple

import torch
from torch import Tensor

LOG2E = 1.4426950408889634

Partial = Tuple[Tensor, Tensor]


def merge_partials(parts: List[Partial]) -> Partial:
    """o [B, H, D], lse [B, H] for each part -> the same for the union of their keys."""
    lse = torch.stack([p[1] for p in parts])                       # [P, B, H]
    top = lse.amax(0)
    top = torch.where(torch.isfinite(top), top, torch.zeros_like(top))
    w = torch.exp(lse - top)
    z = w.sum(0)
    o = torch.stack([p[0] for p in parts])
    o = (w[..., None] * o).sum(0) / z.clamp_min(1e-30)[..., None]
    return o, torch.log(z) + top


class SplitKVDecoder:
    def __init__(self, head_dim: int, n_heads: int, n_kv_heads: int, split: int = 256):
        self.scale = 1.0 / math.sqrt(head_dim)
        self.h, self.hkv = n_heads, n_kv_heads
        self.split = split

    def partial(self, q: Tensor, k: Tensor, v: Tensor, valid: Optional[Tensor] = None) -> Partial:
        """q [B, H, D]; k, v [B, S, Hkv, D]; valid [B, S] bool, True: the slot is in use."""
        b, h, d = q.shape
        g = h // self.hkv
        qg = (q.float() * (self.scale * LOG2E)).view(b, self.hkv, g, d)
        s = torch.einsum("bkgd,bskd->bkgs", qg, k.float())
        if valid is not None:
            s = s.masked_fill(~valid[:, None, None, :], float("-inf"))
        m = s.amax(-1, keepdim=True)
        m = torch.where(torch.isfinite(m), m, torch.zeros_like(m))
        p = torch.exp2(s - m)
        z = p.sum(-1, keepdim=True)
        o = torch.einsum("bkgs,bskd->bkgd", p, v.float()) / z.clamp_min(1e-30)
        lse = m + torch.log2(z)
        return o.reshape(b, h, d), lse.reshape(b, h)

    def decode(self, q: Tensor, k: Tensor, v: Tensor, lengths: Tensor,
               prefix: Optional[Tuple[Tensor, Tensor]] = None) -> Tensor:
        """lengths [B]: slots in use per sequence.  prefix: shared (k, v), each [S0, Hkv, D]."""
        b = q.shape[0]
        parts = []
        if prefix is not None:
            pk, pv = (t[None].expand(b, -1, -1, -1) for t in prefix)
            parts.append(self.partial(q, pk, pv))
        for a in range(0, k.shape[1], self.split):
            z = min(a + self.split, k.shape[1])
            used = torch.arange(a, z, device=q.device)[None] < lengths[:, None]
            parts.append(self.partial(q, k[:, a:z], v[:, a:z], used))
        return merge_partials(parts)[0].to(q.dtype)


class Replica:
    """Holds the cache of a batch of sequences; the router talks to this object."""

    def __init__(self, batch, max_len, n_heads=8, n_kv_heads=2, head_dim=32, split=64):
        self.decoder = SplitKVDecoder(head_dim, n_heads, n_kv_heads, split)
        self.k = torch.zeros(batch, max_len, n_kv_heads, head_dim)
        self.v = torch.zeros_like(self.k)
        self.lengths = torch.zeros(batch, dtype=torch.long)
        self.prefix = None

    def load_prefix(self, k, v):
        self.prefix = (k, v)

    def append(self, k, v):
        rows = torch.arange(self.k.shape[0])
        self.k[rows, self.lengths] = k
        self.v[rows, self.lengths] = v
        self.lengths += 1

    def step(self, q, k, v):
        self.append(k, v)
        return self.decoder.decode(q, self.k, self.v, self.lengths, self.prefix)


if __name__ == "__main__":
    torch.manual_seed(0)
    rep = Replica(batch=3, max_len=200)
    rep.load_prefix(torch.randn(40, 2, 32), torch.randn(40, 2, 32))
    for _ in range(150):
        y = rep.step(torch.randn(3, 8, 32), torch.randn(3, 2, 32), torch.randn(3, 2, 32))
    print(y.shape)
