"""Long contracts: banded attention in blocks, memory O(T * w) instead of O(T * T).

local_attention(q, k, v, w)
    q, k, v  (B, H, T, d), any T >= 1 (padded inside to a multiple of w)
    w        half width: token i attends to every j with |i - j| <= w (itself included)
    returns  (B, H, T, d); scores are scaled with 1/sqrt(d)
Blocks of w queries are compared with the block before, their own and the one after.
"""
import torch
import torch.nn.functional as F


def _three(t, w):
    """(B, H, n*w, d) -> (B, H, n, 3*w, d): previous, own and next block of each block."""
    B, H, L, d = t.shape
    t = F.pad(t, (0, 0, w, w)).reshape(B, H, L // w + 2, w, d)
    return torch.cat([t[:, :, :-2], t[:, :, 1:-1], t[:, :, 2:]], dim=3)


def local_attention(q, k, v, w):
    B, H, T, d = q.shape
    extra = -T % w
    q, k, v = (F.pad(t, (0, 0, 0, extra)) for t in (q, k, v))
    n = (T + extra) // w
    qb = q.reshape(B, H, n, w, d) * d ** -0.5
    kb, vb = _three(k, w), _three(v, w)

    i = torch.arange(n * w, device=q.device).reshape(n, w, 1)
    j = (torch.arange(n, device=q.device)[:, None] - 1) * w + torch.arange(3 * w, device=q.device)
    j = j.reshape(n, 1, 3 * w)
    ok = ((i - j).abs() <= w) & (j >= 0) & (j < T)
    ok = ok | (i >= T)                       # rows of the inner padding, cut off below

    s = torch.einsum("bhnqd,bhnkd->bhnqk", qb, kb)
    s = s.masked_fill(~ok, float("-inf"))
    y = torch.einsum("bhnqk,bhnkd->bhnqd", s.softmax(-1), vb)
    return y.reshape(B, H, n * w, d)[:, :, :T]
