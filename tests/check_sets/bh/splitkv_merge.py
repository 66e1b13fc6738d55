"""Split-KV decoding for long prompts.

The KV of a long request is cut into shards that live on different workers.
Every worker computes a partial output and a log-sum-exp; the router combines
them. exp2 is used inside the shard (log2(e) is folded into the scale), as on
the GPU, so that CPU and GPU partials agree bit for bit in tests.
"""
from __future__ import annotations

import torch

LOG2E = 1.4426950408889634


def shard_bounds(total: int, shards: int) -> list[tuple[int, int]]:
    step = -(-total // shards)
    return [(a, min(a + step, total)) for a in range(0, total, step)]


def partial_attention(q, k, v, scale):
    """q (H, D), k/v (N, H, D) -> out (H, D), lse (H,).

    out is normalised within the shard, lse is the log-sum-exp of its scores.
    """
    s = torch.einsum("hd,nhd->hn", q.float(), k.float()) * (scale * LOG2E)
    m = s.amax(dim=-1, keepdim=True)
    p = torch.exp2(s - m)
    l = p.sum(dim=-1, keepdim=True)
    out = torch.einsum("hn,nhd->hd", p / l, v.float())
    lse = (m + torch.log2(l)).squeeze(-1)
    return out, lse


def merge_partials(outs, lses):
    """Combine shard results: weights are softmax over shards of the lse."""
    lse = torch.stack(lses)                      # (S, H)
    top = lse.amax(dim=0, keepdim=True)
    w = torch.exp(lse - top)
    w = w / w.sum(dim=0, keepdim=True)
    return (torch.stack(outs) * w[..., None]).sum(dim=0)


def split_kv_decode(q, k, v, shards: int = 4, scale: float | None = None):
    """Exact attention of one token over all keys, whatever the shard count.

    q: (H, D); k, v: (N, H, D), N >= 1. Returns (H, D) in q's dtype.
    """
    if scale is None:
        scale = q.shape[-1] ** -0.5
    outs, lses = [], []
    for a, b in shard_bounds(k.shape[0], shards):
        o, l = partial_attention(q, k[a:b], v[a:b], scale)
        outs.append(o)
        lses.append(l)
    return merge_partials(outs, lses).to(q.dtype)


class Router:
    """Keeps the shards of a request and spreads new tokens round-robin."""

    def __init__(self, workers: int, heads: int, dim: int):
        self.k = [torch.empty(0, heads, dim) for _ in range(workers)]
        self.v = [torch.empty(0, heads, dim) for _ in range(workers)]
        self.turn = 0

    def push(self, k, v):
        w = self.turn % len(self.k)
        self.k[w] = torch.cat([self.k[w], k[None]])
        self.v[w] = torch.cat([self.v[w], v[None]])
        self.turn += 1

    def decode(self, q):
        scale = q.shape[-1] ** -0.5
        parts = [partial_attention(q, k, v, scale)
                 for k, v in zip(self.k, self.v) if len(k)]
        return merge_partials([p[0] for p in parts], [p[1] for p in parts]).to(q.dtype)


if __name__ == "__main__":
    q, k, v = torch.randn(2, 8), torch.randn(37, 2, 8), torch.randn(37, 2, 8)
    print(split_kv_decode(q, k, v).shape)
