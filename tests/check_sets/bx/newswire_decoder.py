"""Headline decoder of a news agency: attention layer with a KV cache.

Llama conventions: grouped key/value heads (each serves heads // kv_heads
consecutive query heads), rotary embedding in the half-split layout, causal.
`forward(x, cache)` takes any number of new tokens; with a cache they are
placed after the tokens in it.  The cache is a plain dict made by `new_cache`.
"""
import torch
from torch import nn


def rope_tables(positions, dim, theta):
    freq = theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    ang = positions.to(torch.float64)[:, None] * freq[None, :]
    ang = torch.cat([ang, ang], dim=-1)
    return ang.cos(), ang.sin()


def apply_rope(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos.to(x.dtype) + torch.cat([-b, a], dim=-1) * sin.to(x.dtype)


class WireAttention(nn.Module):
    def __init__(self, dim=32, heads=4, kv_heads=2, theta=10000.0):
        super().__init__()
        self.heads, self.kv_heads, self.hd, self.theta = heads, kv_heads, dim // heads, theta
        self.q_proj = nn.Linear(dim, heads * self.hd, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(heads * self.hd, dim, bias=False)

    @staticmethod
    def new_cache():
        return {"k": None, "v": None}

    def forward(self, x, cache=None):
        b, n, _ = x.shape
        q = self.q_proj(x).view(b, n, self.heads, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(b, n, self.kv_heads, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(b, n, self.kv_heads, self.hd).transpose(1, 2)

        past = 0 if cache is None or cache["k"] is None else cache["k"].shape[2]
        where = torch.arange(past, past + n, device=x.device)
        cos, sin = rope_tables(where, self.hd, self.theta)
        q, k = apply_rope(q, cos, sin), apply_rope(k, cos, sin)
        if past:
            k = torch.cat([cache["k"], k], dim=2)
            v = torch.cat([cache["v"], v], dim=2)
        if cache is not None:
            cache["k"], cache["v"] = k, v

        # query heads folded to (kv_head, member of its group): no copy of k and v
        q = q.view(b, self.kv_heads, self.heads // self.kv_heads, n, self.hd)
        s = torch.einsum("bgmid,bgjd->bgmij", q, k) * self.hd ** -0.5
        seen = torch.arange(past + n, device=x.device)[None, :] <= where[:, None]
        s = s.masked_fill(~seen, float("-inf"))
        p = s.float().softmax(dim=-1).to(v.dtype) if s.dtype != torch.float64 else s.softmax(dim=-1)
        y = torch.einsum("bgmij,bgjd->bigmd", p, v)
        return self.o_proj(y.reshape(b, n, -1))


if __name__ == "__main__":
    layer, cache = WireAttention(), WireAttention.new_cache()
    print(layer(torch.randn(1, 5, 32), cache).shape, layer(torch.randn(1, 1, 32), cache).shape)
