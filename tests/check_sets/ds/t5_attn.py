"""T5 self-attention with bucketed relative position bias, written out for reading."""
import math

import torch
from torch import nn


def bucket(rel, two_sided, n=32, far=128):
    """Bucket of rel = key position - query position (any int tensor).

    two_sided: half of the buckets for rel > 0, half for rel <= 0; otherwise rel > 0
    counts as 0.  In a half, the first half is exact, the rest grows logarithmically
    up to ``far``, beyond which everything shares the last bucket.
    """
    base = torch.zeros_like(rel)
    if two_sided:
        n //= 2
        base = (rel > 0).long() * n
        dist = rel.abs()
    else:
        dist = (-rel).clamp(min=0)
    exact = n // 2
    log = exact + (torch.log(dist.clamp(min=1).float() / exact) / math.log(far / exact) * (n - exact)).long()
    return base + torch.where(dist < exact, dist, log.clamp(max=n - 1))


class T5SelfAttention(nn.Module):
    """T5 does not divide the scores by sqrt(d): that factor went into the initialisation.

    x       (B, Lq, D)   new tokens
    past    None or (k, v), each (B, H, P, d): earlier tokens, P of them
    keep    (B, P + Lq)  1 for real tokens, 0 for padding
    returns y (B, Lq, D) and the new (k, v).

    decoder=True: token i sees the P cached tokens and the new ones up to itself;
    decoder=False: no cache is used and all tokens see each other.
    A query that is left without a key gives zeros before the output projection.
    """

    def __init__(self, dim, heads, d_kv, decoder=False):
        super().__init__()
        self.h, self.d, self.decoder = heads, d_kv, decoder
        self.q = nn.Linear(dim, heads * d_kv, bias=False)
        self.k = nn.Linear(dim, heads * d_kv, bias=False)
        self.v = nn.Linear(dim, heads * d_kv, bias=False)
        self.o = nn.Linear(heads * d_kv, dim, bias=False)
        self.rel = nn.Embedding(32, heads)

    def forward(self, x, keep, past=None):
        B, Lq, _ = x.shape
        q, k, v = (f(x).view(B, Lq, self.h, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        Lk = k.size(2)
        where_k = torch.arange(Lk, device=x.device)
        where_q = where_k[Lk - Lq:]
        rel = where_k[None, :] - where_q[:, None]
        s = q @ k.transpose(-1, -2) + self.rel(bucket(rel, not self.decoder)).permute(2, 0, 1)
        ok = keep[:, None, None, :].bool()
        if self.decoder:
            ok = ok & (rel <= 0)
        s = s.float().masked_fill(~ok, torch.finfo(torch.float32).min)
        p = (s.softmax(-1) * ok).to(v.dtype)
        y = (p @ v).transpose(1, 2).reshape(B, Lq, self.h * self.d)
        return self.o(y), (k, v)
