"""Flash-decoding: long contexts are cut in pieces, attended to apart and put together.

Each piece gives its own normalised output and the natural log of its sum of exponentials.
The pieces' outputs are averaged with weights exp(lse_i) / sum_j exp(lse_j).
"""
import torch


def piece(q, k, v, keep):
    """q (B, H, d), k/v (B, H, n, d), keep (B, n) bool, True = a real token.
    Returns out (B, H, d) and lse (B, H); a piece without a real token gives 0 and -inf."""
    s = torch.einsum("bhd,bhnd->bhn", q, k) * (q.shape[-1] ** -0.5)
    s = s.masked_fill(~keep[:, None, :], float("-inf"))
    top = s.amax(-1, keepdim=True)
    top = torch.where(torch.isinf(top), torch.zeros_like(top), top)
    e = torch.exp(s - top)
    z = e.sum(-1, keepdim=True)
    out = torch.einsum("bhn,bhnd->bhd", e, v) / z.clamp_min(1e-30)
    return out, (torch.log(z) + top).squeeze(-1)


def split_decode(q, k, v, lengths, pieces=4):
    """Decode attention over a padded cache.

    q: (B, H, d).  k, v: (B, H, N, d), of which the first lengths[b] (at least 1) tokens
    are real; finite rubbish may stand behind them.  pieces: number of splits of N.
    Returns (B, H, d) = softmax(q k^T / sqrt(d)) v over the real tokens.
    """
    n = k.shape[2]
    keep = torch.arange(n)[None, :] < lengths[:, None]
    edges = torch.linspace(0, n, pieces + 1).long().tolist()
    outs, lses = [], []
    for lo, hi in zip(edges[:-1], edges[1:]):
        if lo == hi:
            continue
        o, l = piece(q, k[:, :, lo:hi], v[:, :, lo:hi], keep[:, lo:hi])
        outs.append(o)
        lses.append(l)
    share = torch.softmax(torch.stack(lses), dim=0)
    return (share.unsqueeze(-1) * torch.stack(outs)).sum(0)
