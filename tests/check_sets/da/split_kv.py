import math
import torch

LOG2E = 1.0 / math.log(2.0)


def _piece(q, k, v):
    s = torch.einsum("bhd,bhsd->bhs", q, k) * q.shape[-1] ** -0.5
    m = s.amax(-1)
    p = torch.exp(s - m[..., None])
    z = p.sum(-1)
    o = torch.einsum("bhs,bhsd->bhd", p, v) / z[..., None]
    return o, m * LOG2E + torch.log2(z)


def split_kv_decode(q, k, v, pieces=4):
    """Decode one token with the cache cut into pieces that are done apart.

    q (B, H, D), k and v (B, H, S, D).  The result does not depend on `pieces`.
    """
    done = [_piece(q, kk, vv) for kk, vv in zip(k.chunk(pieces, 2), v.chunk(pieces, 2))]
    outs = torch.stack([o for o, _ in done])
    lse = torch.stack([l for _, l in done])
    w = torch.exp(lse - lse.amax(0))
    w = w / w.sum(0)
    return (w[..., None] * outs).sum(0)
