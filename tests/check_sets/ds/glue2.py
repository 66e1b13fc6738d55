"""Split-KV decoding: every worker reads a part of the cache, the pieces are glued afterwards."""
import math

import torch

LOG2E = math.log2(math.e)


def worker(q, k, v, scale):
    """Attention over one part of the cache.

    q (B, H, d), k and v (B, H, n, d) -> o (B, H, d), lse (B, H)
    """
    s = torch.einsum("bhd,bhnd->bhn", q, k) * (scale * LOG2E)
    top = s.amax(-1, keepdim=True)
    p = torch.exp2(s - top)
    z = p.sum(-1, keepdim=True)
    o = torch.einsum("bhn,bhnd->bhd", p / z, v)
    return o, (top + torch.log2(z)).squeeze(-1)


def glue(parts):
    """parts: list of (o, lse) of disjoint pieces of the cache -> (B, H, d).

    The weight of a piece is proportional to the sum of the exponentials of its scores.
    """
    o = torch.stack([a for a, _ in parts])                   # (P, B, H, d)
    lse = torch.stack([b for _, b in parts])                 # (P, B, H)
    w = torch.exp(lse - lse.amax(0, keepdim=True))
    w = w / w.sum(0, keepdim=True)
    return (w.unsqueeze(-1) * o).sum(0)


def split_decode(q, k_cache, v_cache, pieces=4):
    """One decode step: q (B, H, d), caches (B, H, T, d), all T tokens valid, T >= pieces.

    Exactly softmax(q k^T / sqrt(d)) v over the whole cache, whatever ``pieces`` is.
    """
    scale = q.shape[-1] ** -0.5
    ks = torch.tensor_split(k_cache, pieces, dim=2)
    vs = torch.tensor_split(v_cache, pieces, dim=2)
    return glue([worker(q, a, b, scale) for a, b in zip(ks, vs)])
