"""Split-KV decoding for the inference server.

The cache is cut in chunks; every chunk yields a partial output and the log-sum-exp of
its scores, partials are merged at the end. q are the newest Lq tokens of a sequence of
Lk tokens, i.e. query i sits at absolute position Lk - Lq + i and sees keys up to there.

q [B, H, Lq, d]   k, v [B, H, Lk, d]   ->  [B, H, Lq, d]
"""
import math

import torch

LOG2E = 1.4426950408889634


def partial_attn(q, k, v, offset):
    """one chunk, first key at absolute position `offset`."""
    n = q.size(-2)
    # exp2 is cheaper than exp on our hardware
    s = torch.matmul(q, k.transpose(-1, -2)) * (LOG2E / math.sqrt(q.size(-1)))
    qpos = torch.arange(n, device=q.device)[:, None]
    kpos = offset + torch.arange(k.size(-2), device=q.device)[None, :]
    ok = kpos <= qpos
    s = s.masked_fill(~ok, -math.inf)
    m = s.amax(-1, keepdim=True)
    m0 = torch.where(torch.isinf(m), torch.zeros_like(m), m)
    p = torch.exp2(s - m0)
    l = p.sum(-1, keepdim=True)
    out = torch.matmul(p, v) / l.clamp_min(1e-30)
    lse = torch.where(l > 0, m0 + torch.log2(l.clamp_min(1e-30)), torch.full_like(l, -math.inf))
    return out, lse


def merge(outs, lses):
    o, z = torch.stack(outs), torch.stack(lses)
    top = z.amax(0)
    w = torch.exp(z - torch.where(torch.isinf(top), torch.zeros_like(top), top))
    return (o * w).sum(0) / w.sum(0).clamp_min(1e-30)


def splitkv_decode(q, k, v, chunk=4):
    outs, lses = [], []
    for a in range(0, k.size(-2), chunk):
        o, z = partial_attn(q, k[..., a:a + chunk, :], v[..., a:a + chunk, :], a)
        outs.append(o)
        lses.append(z)
    return merge(outs, lses)
