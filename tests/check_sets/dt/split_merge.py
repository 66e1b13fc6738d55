"""Flash-decoding in plain PyTorch: a long cache is cut into splits, each split is attended on
its own, and the partial results are merged with their log-sum-exp.

    q (B, H, d)   k, v (B, H, N, d)   length (B,) valid cache entries of each sequence (>= 1)
    split: number of cache entries per split

decode_split(q, k, v, length, split) == softmax(q k^T / sqrt(d)) v over the first `length`
entries, up to rounding, for every split size. Splits that lie wholly behind `length`
count for nothing.
"""
import math
import torch

LOG2E = 1.4426950408889634


def partial(q, k, v, ok):
    """One split. ok (B, n) bool, True = valid entry. -> o (B, H, d), lse (B, H)"""
    s = torch.einsum("bhd,bhnd->bhn", q, k) * (LOG2E / math.sqrt(q.size(-1)))
    s = s.masked_fill(~ok[:, None], float("-inf"))
    m = s.amax(-1, keepdim=True).clamp(min=-1e30)
    p = torch.exp2(s - m)
    z = p.sum(-1, keepdim=True)
    o = torch.einsum("bhn,bhnd->bhd", p, v) / z.clamp(min=1e-30)
    lse = (m + torch.log2(z)).squeeze(-1)
    return o, lse


def merge(outs, lses):
    """lists of (B, H, d) and (B, H)"""
    lse = torch.stack(lses)
    w = torch.exp(lse - lse.amax(0))
    w = w / w.sum(0)
    return (w[..., None] * torch.stack(outs)).sum(0)


def decode_split(q, k, v, length, split=16):
    N = k.size(2)
    pos = torch.arange(N, device=q.device)
    outs, lses = [], []
    for a in range(0, N, split):
        ok = pos[None, a:a + split] < length[:, None]
        o, l = partial(q, k[:, :, a:a + split], v[:, :, a:a + split], ok)
        outs.append(o)
        lses.append(l)
    return merge(outs, lses)
