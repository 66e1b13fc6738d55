"""Attention of our code-completion model (decoder only, grouped KV heads, RoPE, KV cache)."""
import torch
import torch.nn.functional as F
from torch import nn


def rope_tables(positions, dim, base=10000.0):
    inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    ang = positions.float()[:, None] * inv
    ang = torch.cat([ang, ang], dim=-1)
    return ang.cos(), ang.sin()


def rotate(x, cos, sin):
    # half-split convention: pairs are (i, i + dim/2)
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class GroupedAttention(nn.Module):
    """
    forward(x, cache=None) -> (y, cache)

    x: (batch, t_new, dim). `cache` is the (k, v) of everything before, keys stored
    already rotated. Token i sees tokens 0..i of the whole sequence.
    """

    def __init__(self, dim=32, n_heads=4, n_kv=2):
        super().__init__()
        self.nh, self.nkv, self.hd = n_heads, n_kv, dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.hd, bias=False)
        self.wk = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wv = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wo = nn.Linear(n_heads * self.hd, dim, bias=False)

    def forward(self, x, cache=None):
        b, t, _ = x.shape
        past = 0 if cache is None else cache[0].size(2)
        q = self.wq(x).view(b, t, self.nh, self.hd).transpose(1, 2)
        k = self.wk(x).view(b, t, self.nkv, self.hd).transpose(1, 2)
        v = self.wv(x).view(b, t, self.nkv, self.hd).transpose(1, 2)
        cos, sin = rope_tables(torch.arange(past, past + t, device=x.device), self.hd)
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        cache = (k, v)

        # head h reads kv head h // (nh / nkv)
        rep = self.nh // self.nkv
        kk, vv = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)
        allowed = torch.ones(t, past + t, dtype=torch.bool, device=x.device).tril(past)
        y = F.scaled_dot_product_attention(q, kk, vv, attn_mask=allowed)
        return self.wo(y.transpose(1, 2).reshape(b, t, -1)), cache
