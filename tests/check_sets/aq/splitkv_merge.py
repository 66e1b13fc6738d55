"""Split-KV decode: the cache is cut in pieces that are worked on by themselves and merged by their log-sum-exp."""
import math
import torch

LOG2E = 1.0 / math.log(2.0)


def piece_attention(q, k, v, scale, n_valid):
    """q [B, H, d], k and v [B, T, H, d], n_valid [B]: number of leading keys of the piece in use.

    Works in base 2 inside (exp2 is the fast instruction). Returns the
    normalised output [B, H, d] and the lse [B, H] of the piece in base 2; a
    piece without keys has output 0 and lse -inf.
    """
    s = torch.einsum("bhd,bthd->bht", q, k) * (scale * LOG2E)
    gone = torch.arange(k.shape[1], device=k.device)[None] >= n_valid[:, None]
    s = s.masked_fill(gone[:, None], -math.inf)
    top = s.amax(-1)
    ref = torch.where(top == -math.inf, torch.zeros_like(top), top)
    e = torch.exp2(s - ref[..., None])
    z = e.sum(-1)
    out = torch.einsum("bht,bthd->bhd", e, v) / z.clamp_min(torch.finfo(z.dtype).tiny)[..., None]
    return out, ref + torch.log2(z)


def merge_pieces(outs, lses):
    """outs [S, B, H, d], lses [S, B, H]"""
    top = lses.amax(0)
    top = torch.where(top == -math.inf, torch.zeros_like(top), top)
    w = torch.exp(lses - top)
    den = w.sum(0).clamp_min(torch.finfo(w.dtype).tiny)
    return (outs * w[..., None]).sum(0) / den[..., None]


def splitkv_decode(q, k, v, lengths, pieces=4, scale=None):
    """Equals softmax(q k^T * scale) v over the first lengths[b] keys, whatever the number of pieces."""
    T = k.shape[1]
    scale = q.shape[-1] ** -0.5 if scale is None else scale
    step = -(-T // pieces)
    outs, lses = [], []
    for lo in range(0, T, step):
        hi = min(lo + step, T)
        used = (lengths - lo).clamp(0, hi - lo)
        o, l = piece_attention(q, k[:, lo:hi], v[:, lo:hi], scale, used)
        outs.append(o)
        lses.append(l)
    return merge_pieces(torch.stack(outs), torch.stack(lses))


def choose_pieces(batch, heads, keys, sms=132, min_keys=128):
    """As many pieces as fill the multiprocessors, but none shorter than min_keys."""
    want = max(1, sms // max(1, batch * heads))
    return max(1, min(want, keys // min_keys))
