"""Decode attention with the cache split in parts, one partial result each."""
import math
import torch

LOG2E = 1.4426950408889634


def partial_attention(q, k, v):
    """q: (B, H, D), k, v: (B, S, H, D) -> output of this part (B, H, D), log-sum-exp (B, H)"""
    scale = LOG2E / math.sqrt(q.shape[-1])
    s = torch.einsum("bhd,bshd->bhs", q, k) * scale
    m = s.amax(-1, keepdim=True)
    p = torch.exp2(s - m)
    d = p.sum(-1, keepdim=True)
    o = torch.einsum("bhs,bshd->bhd", p / d, v)
    return o, (m + torch.log2(d)).squeeze(-1)


def merge_states(o, lse):
    """o: (parts, B, H, D), lse: (parts, B, H) -> attention over the union of the parts"""
    top = lse.amax(0)
    w = torch.exp(lse - top)
    return (w[..., None] * o).sum(0) / w.sum(0)[..., None]


def decode_attention(q, k, v, num_splits=4):
    """softmax(q k^T / sqrt(D)) v for one new token; q: (B, H, D), k, v: (B, S, H, D)"""
    n = min(num_splits, k.shape[1])
    parts = [partial_attention(q, kk, vv) for kk, vv in zip(k.chunk(n, 1), v.chunk(n, 1))]
    o = torch.stack([p[0] for p in parts])
    lse = torch.stack([p[1] for p in parts])
    return merge_states(o, lse)
