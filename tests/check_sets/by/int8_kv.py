"""Memory-saving decode layer: the K/V cache is held as int8.

Every cached vector (one token, one head) has its own scale, max|x| / 127, and
is stored symmetrically without zero point.  Reading multiplies the scale back,
so scores and outputs are those of the rounded keys and values; the relative
error of an entry is at most 1/254 of the largest one of its vector.
"""
import torch
import torch.nn as nn


def quantise(x):
    scale = x.abs().amax(dim=-1, keepdim=True).clamp_min(1e-8) / 127.0
    return torch.round(x / scale).to(torch.int8), scale


def dequantise(q, scale):
    return q.to(scale.dtype) * scale


class Int8Cache:
    def __init__(self):
        self.store = None

    def __len__(self):
        return 0 if self.store is None else self.store[0].shape[2]

    def extend(self, k, v):
        new = (*quantise(k), *quantise(v))
        if self.store is None:
            self.store = new
        else:
            self.store = tuple(torch.cat(p, dim=2) for p in zip(self.store, new))
        kq, ks, vq, vs = self.store
        return dequantise(kq, ks), dequantise(vq, vs)


class QuantCachedAttention(nn.Module):
    """Causal self-attention; call it with a prompt first, then token by token."""

    def __init__(self, embed_dim=48, num_heads=6):
        super().__init__()
        self.h = num_heads
        self.dh = embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.o_proj = nn.Linear(embed_dim, embed_dim)

    def split(self, t):
        return t.unflatten(-1, (self.h, self.dh)).transpose(1, 2)

    def forward(self, x, cache=None):
        cache = Int8Cache() if cache is None else cache
        past = len(cache)
        q = self.split(self.q_proj(x))
        k, v = cache.extend(self.split(self.k_proj(x)), self.split(self.v_proj(x)))

        t, s = q.shape[2], k.shape[2]
        i = torch.arange(t, device=x.device).unsqueeze(1) + past
        j = torch.arange(s, device=x.device).unsqueeze(0)
        scores = torch.matmul(q, k.mT) * (self.dh ** -0.5)
        scores = torch.where(j <= i, scores, torch.finfo(scores.dtype).min)
        ctx = torch.matmul(torch.softmax(scores, dim=-1), v)
        return self.o_proj(ctx.transpose(1, 2).flatten(-2)), cache
