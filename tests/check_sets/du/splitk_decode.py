"""Split-KV decoding ("flash decoding") in plain PyTorch.

The KV cache of one long request is cut into `splits` pieces; each piece is handled
independently, and a small reduction joins them.  exp2 is used inside because that is what
the CUDA kernel does (the factor log2(e) is multiplied into the scale).

Promise: split_decode(q, k, v, splits=n) == softmax(q k^T / sqrt(d)) v for any n.
"""
import math

import torch

LOG2E = 1.4426950408889634


def _piece(q, k, v):
    """q (B, H, d), k/v (B, H, s, d) -> out (B, H, d) normalised in the piece, lse (B, H)."""
    s = torch.einsum("bhd,bhsd->bhs", q, k) * (LOG2E / math.sqrt(q.shape[-1]))
    m = s.max(dim=-1, keepdim=True).values
    p = torch.exp2(s - m)
    l = p.sum(dim=-1, keepdim=True)
    out = torch.einsum("bhs,bhsd->bhd", p / l, v)
    return out, (m + torch.log2(l)).squeeze(-1)


def _reduce(outs, lses):
    """outs (n, B, H, d), lses (n, B, H)."""
    top = lses.amax(dim=0)
    w = torch.exp(lses - top)
    w = w / w.sum(dim=0)
    return (w.unsqueeze(-1) * outs).sum(dim=0)


def split_decode(q, k, v, splits=4):
    """
    q       (B, H, d)      the query of the token being generated
    k, v    (B, H, L, d)   the cache, including the new token; all of it is visible
    returns (B, H, d)
    """
    outs, lses = [], []
    for kc, vc in zip(k.chunk(splits, dim=2), v.chunk(splits, dim=2)):
        o, lse = _piece(q, kc, vc)
        outs.append(o)
        lses.append(lse)
    return _reduce(torch.stack(outs), torch.stack(lses))
