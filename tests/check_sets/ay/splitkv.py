"""Split-KV decoding: one new token against a long cache, the cache cut in pieces.

`attend_piece` runs per piece (on different streams / ranks in the server), the partial
results are put together by `merge_pieces`. Together they give exactly what attention
over the whole cache gives. Layout: q [B, H, D], cache [B, T, H, D].

Like the CUDA kernel, the pieces work with exp2: logits get multiplied by log2(e).
"""
import math
from typing import List, NamedTuple, Optional

import torch

LOG2E = 1.4426950408889634


class Piece(NamedTuple):
    out: torch.Tensor        # [B, H, D] normalised within the piece
    lse: torch.Tensor        # [B, H]    log-sum-exp of the piece's logits


def attend_piece(q, k, v, valid, sm_scale) -> Piece:
    """valid: [B, t] True for filled cache rows."""
    s = torch.einsum("bhd,bthd->bht", q.float(), k.float()) * (sm_scale * LOG2E)
    s = s.masked_fill(~valid[:, None, :], float("-inf"))
    m = s.amax(dim=-1, keepdim=True).clamp(min=-1e30)
    p = torch.exp2(s - m)
    l = p.sum(dim=-1, keepdim=True)
    v = v.float().masked_fill(~valid[:, :, None, None], 0.0)
    out = torch.einsum("bht,bthd->bhd", p, v) / l.clamp(min=1e-30)
    lse = m + torch.log2(l)
    return Piece(out, lse.squeeze(-1))


def merge_pieces(pieces: List[Piece]) -> Piece:
    outs = torch.stack([p.out for p in pieces])           # [P, B, H, D]
    lses = torch.stack([p.lse for p in pieces])           # [P, B, H]
    top = lses.amax(dim=0).clamp(min=-1e30)
    w = torch.exp(lses - top)
    total = w.sum(dim=0)
    out = (outs * w.unsqueeze(-1)).sum(dim=0) / total.clamp(min=1e-30).unsqueeze(-1)
    return Piece(out, top + torch.log(total))


class SplitDecoder:
    """Attention of the decode loop. `splits=None` picks the number from the length."""

    def __init__(self, head_dim: int, splits: Optional[int] = None, sm_scale: Optional[float] = None,
                 rows_per_split: int = 256):
        self.sm_scale = sm_scale if sm_scale is not None else 1.0 / math.sqrt(head_dim)
        self.splits = splits
        self.rows_per_split = rows_per_split

    def bounds(self, t: int):
        n = self.splits or max(1, -(-t // self.rows_per_split))
        size = -(-t // n)
        return [(a, min(a + size, t)) for a in range(0, t, size)]

    def __call__(self, q, k_cache, v_cache, lengths):
        """q [B, H, D]; caches [B, T, H, D]; lengths [B] filled rows per sequence."""
        t = int(lengths.max())
        valid = torch.arange(t, device=q.device)[None, :] < lengths[:, None]
        pieces = []
        for a, b in self.bounds(t):
            pieces.append(attend_piece(q, k_cache[:, a:b], v_cache[:, a:b], valid[:, a:b], self.sm_scale))
        return merge_pieces(pieces).out.to(q.dtype)


class RowCache:
    """Growing per-sequence cache used by the tests and the toy server."""

    def __init__(self, batch, max_len, heads, dim, dtype=torch.float32):
        self.k = torch.zeros(batch, max_len, heads, dim, dtype=dtype)
        self.v = torch.zeros_like(self.k)
        self.lengths = torch.zeros(batch, dtype=torch.long)

    def put(self, k, v, active):
        """k, v [B, H, D]; active [B] bool, sequences that got a token."""
        rows = active.nonzero().squeeze(1)
        self.k[rows, self.lengths[rows]] = k[rows].to(self.k.dtype)
        self.v[rows, self.lengths[rows]] = v[rows].to(self.v.dtype)
        self.lengths[rows] += 1


def serve_step(x, weights, cache, decoder, active):
    """x [B, C] hidden of the newest token; weights: dict with wq, wk, wv, wo [C, C]."""
    B, C = x.shape
    H = cache.k.shape[2]
    q, k, v = ((x @ weights[n]).view(B, H, C // H) for n in ("wq", "wk", "wv"))
    cache.put(k, v, active)
    y = decoder(q, cache.k, cache.v, cache.lengths)
    return y.reshape(B, C) @ weights["wo"]
