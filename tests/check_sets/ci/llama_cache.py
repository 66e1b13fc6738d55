"""Grouped-query attention with rotary positions and a KV cache (LLaMA layout)."""
import torch
import torch.nn as nn


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat([-b, a], dim=-1)


class Rotary(nn.Module):
    def __init__(self, dim, base=10000.0):
        super().__init__()
        self.register_buffer("inv_freq", base ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, x, start):
        pos = torch.arange(start, start + x.shape[-2], device=x.device).float()
        ang = torch.outer(pos, self.inv_freq)
        ang = torch.cat([ang, ang], dim=-1)
        return x * ang.cos() + rotate_half(x) * ang.sin()


class CachedGQA(nn.Module):
    """x: (B, T, dim). ``cache`` is None or the pair (k, v) of an earlier call.

    Causal. Returns (out, cache); prefill and step-by-step decoding agree.
    """

    def __init__(self, dim=32, n_heads=4, n_kv=2):
        super().__init__()
        self.n_heads, self.n_kv, self.hd = n_heads, n_kv, dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.hd, bias=False)
        self.wk = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wv = nn.Linear(dim, n_kv * self.hd, bias=False)
        self.wo = nn.Linear(n_heads * self.hd, dim, bias=False)
        self.rope = Rotary(self.hd)

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        past = 0 if cache is None else cache[0].shape[2]
        q = self.wq(x).view(B, T, self.n_heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        v = self.wv(x).view(B, T, self.n_kv, self.hd).transpose(1, 2)
        q, k = self.rope(q, past), self.rope(k, past)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        cache = (k, v)

        group = self.n_heads // self.n_kv
        q = q.reshape(B, self.n_kv, group, T, self.hd)
        scores = torch.einsum("bngtd,bnsd->bngts", q, k) / self.hd ** 0.5
        S = k.shape[2]
        i = torch.arange(past, past + T, device=x.device)[:, None]
        j = torch.arange(S, device=x.device)[None]
        scores = scores.masked_fill(j > i, float("-inf"))
        w = scores.float().softmax(-1).to(v.dtype)
        out = torch.einsum("bngts,bnsd->bngtd", w, v)
        out = out.reshape(B, self.n_heads, T, self.hd).transpose(1, 2).reshape(B, T, -1)
        return self.wo(out), cache
