import math
import torch

LOG2E = 1.4426950408889634


def part(q, k, v):
    """Attention of q (B, H, D) over one slice k, v (B, H, S, D) of the cache.
    exp2 is what the kernel uses, so the scale carries log2(e).
    Returns the normalised output (B, H, D) and the log-sum-exp (B, H)."""
    s = torch.einsum("bhd,bhsd->bhs", q, k) * (LOG2E / math.sqrt(q.size(-1)))
    m = s.amax(dim=-1, keepdim=True)
    p = torch.exp2(s - m)
    z = p.sum(dim=-1, keepdim=True)
    out = torch.einsum("bhs,bhsd->bhd", p / z, v)
    lse = (m + torch.log2(z)).squeeze(-1)
    return out, lse


def split_decode(q, k, v, pieces=4):
    """Flash-decoding: the cache is cut into pieces that could run on different
    SMs, and the partial results are merged. Same result as softmax attention of q over
    all of k, v."""
    outs, lses = [], []
    for ks, vs in zip(k.chunk(pieces, dim=2), v.chunk(pieces, dim=2)):
        o, l = part(q, ks, vs)
        outs.append(o)
        lses.append(l)
    o, l = torch.stack(outs), torch.stack(lses)
    w = torch.exp(l - l.amax(dim=0))
    w = w / w.sum(dim=0)
    return (w.unsqueeze(-1) * o).sum(dim=0)
