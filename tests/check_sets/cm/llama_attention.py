"""Grouped-query attention with rotary embeddings and a KV cache."""
import torch
import torch.nn as nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class LlamaAttention(nn.Module):
    """Causal. hidden: (B, T, dim). `cache` is None or a (k, v) pair from the call before,
    each (B, n_kv, T_past, head_dim), keys stored after rotation. Returns (out, new_cache).

    Query head h reads key/value head h // (n_heads // n_kv).
    """

    def __init__(self, dim=32, n_heads=4, n_kv=2, theta=10000.0):
        super().__init__()
        self.n_heads, self.n_kv = n_heads, n_kv
        self.hd = dim // n_heads
        self.q_proj = nn.Linear(dim, n_heads * self.hd, bias=False)
        self.k_proj = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.v_proj = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.o_proj = nn.Linear(n_heads * self.hd, dim, bias=False)
        inv = theta ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        self.register_buffer("inv_freq", inv, persistent=False)

    def _rope(self, x, start):
        pos = torch.arange(start, start + x.shape[-2], device=x.device).float()
        ang = torch.outer(pos, self.inv_freq)
        ang = torch.cat((ang, ang), dim=-1)
        return x * ang.cos() + rotate_half(x) * ang.sin()

    def forward(self, hidden, cache=None):
        B, T, _ = hidden.shape
        past = 0 if cache is None else cache[0].shape[2]
        q = self.q_proj(hidden).view(B, T, self.n_heads, self.hd).transpose(1, 2)
        k = self.k_proj(hidden).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        v = self.v_proj(hidden).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        q, k = self._rope(q, past), self._rope(k, past)
        if cache is not None:
            k = torch.cat((cache[0], k), dim=2)
            v = torch.cat((cache[1], v), dim=2)
        new_cache = (k, v)

        # group the query heads rather than copy k and v
        g = self.n_heads // self.n_kv
        qg = q.reshape(B, self.n_kv, g, T, self.hd)
        scores = torch.einsum("bkgtd,bksd->bkgts", qg, k) / self.hd ** 0.5
        allowed = torch.ones(T, past + T, dtype=torch.bool, device=hidden.device).tril(past)
        probs = scores.masked_fill(~allowed, float("-inf")).softmax(-1)
        out = torch.einsum("bkgts,bksd->bkgtd", probs, v)
        out = out.reshape(B, self.n_heads, T, self.hd).transpose(1, 2).reshape(B, T, -1)
        return self.o_proj(out), new_cache
