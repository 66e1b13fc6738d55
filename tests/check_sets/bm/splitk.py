# split-k decode for long contexts, reference path.
#
# Works in base two all the way: 2**x is the cheap instruction on the target, so
# log2(e) goes into the scale, the partial normaliser is a log2-sum-exp2, and the
# reduction over the splits weighs with 2**(lse_i - lse_max).
import math
from typing import NamedTuple, Optional

import torch

LOG2E = 1.4426950408889634


class Partial(NamedTuple):
    out: torch.Tensor   # [B, H, D]  normalised inside its split
    lse2: torch.Tensor  # [B, H]     log2 of the sum of 2**score


def _one_split(q, k, v, valid) -> Partial:
    # q [B,H,D] pre-scaled; k, v [B,s,Hkv,D]; valid [B,s]
    b, h, d = q.shape
    hkv = k.shape[2]
    s2 = torch.einsum("bngd,bsnd->bngs", q.view(b, hkv, h // hkv, d), k).reshape(b, h, -1)
    s2 = s2.masked_fill(~valid[:, None], -math.inf)
    m2 = s2.amax(-1)
    safe = torch.where(m2 == -math.inf, 0.0, m2)
    e = torch.exp2(s2 - safe[..., None])
    z = e.sum(-1)
    o = torch.einsum("bngs,bsnd->bngd", e.view(b, hkv, h // hkv, -1), v).reshape(b, h, d)
    o = o / z.clamp_min(torch.finfo(z.dtype).tiny)[..., None]
    return Partial(o, safe + torch.log2(z))     # log2(0) = -inf: an empty split weighs nothing


def _reduce(parts) -> torch.Tensor:
    lse = torch.stack([p.lse2 for p in parts])              # [S,B,H]
    top = lse.amax(0)
    top = torch.where(top == -math.inf, 0.0, top)
    w = torch.exp2(lse - top)
    z = w.sum(0)
    acc = sum(p.out * wi[..., None] for p, wi in zip(parts, w))
    return acc / torch.where(z == 0, 1.0, z)[..., None]


def decode(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    lens: Optional[torch.Tensor] = None,
    *,
    splits: int = 4,
    scale: Optional[float] = None,
) -> torch.Tensor:
    """softmax(q k^T * scale) v for one new query per sequence.

    q [B,H,D], k and v [B,S,Hkv,D] with H a multiple of Hkv (consecutive query
    heads share a kv head).  ``lens`` [B] is the number of live keys, all of
    them when omitted.  A sequence with no live key returns zeros.
    """
    if k.shape != v.shape:
        raise ValueError(f"k {tuple(k.shape)} and v {tuple(v.shape)} differ")
    b, h, d = q.shape
    s = k.shape[1]
    if scale is None:
        scale = 1.0 / math.sqrt(d)
    if lens is None:
        lens = torch.full((b,), s, device=q.device)
    valid = torch.arange(s, device=q.device)[None] < lens[:, None]
    qs = q.float() * (scale * LOG2E)
    step = -(-s // splits)
    parts = []
    for lo in range(0, s, step):
        hi = min(s, lo + step)
        ok = valid[:, lo:hi]
        vv = v[:, lo:hi].float().masked_fill(~ok[..., None, None], 0.0)
        kk = k[:, lo:hi].float().masked_fill(~ok[..., None, None], 0.0)
        parts.append(_one_split(qs, kk, vv, ok))
    return _reduce(parts).to(q.dtype)


def pick_splits(seq: int, batch_heads: int, sms: int = 132) -> int:
    """Enough splits to fill the chip twice, none shorter than 256 keys."""
    want = max(1, (2 * sms) // max(batch_heads, 1))
    return max(1, min(want, seq // 256))
