"""Streaming wake-word model. Grouped KV heads, sliding window, learned sink per query head.

The sink is one extra logit in the denominator without a value: a head may look at nothing,
so the rows of the weights over the frames sum to less than one.  That is intended.
"""
import torch
from torch import nn


class SinkWindowAttention(nn.Module):
    """x [B, T, D] -> [B, T, D].  Frame t sees frames t-window+1 .. t (window frames)."""

    def __init__(self, dim: int, q_heads: int, kv_heads: int, window: int):
        super().__init__()
        assert q_heads % kv_heads == 0
        self.nq, self.nkv, self.hd, self.window = q_heads, kv_heads, dim // q_heads, window
        self.q = nn.Linear(dim, q_heads * self.hd)
        self.kv = nn.Linear(dim, 2 * kv_heads * self.hd)
        self.o = nn.Linear(q_heads * self.hd, dim)
        self.sinks = nn.Parameter(torch.zeros(q_heads))

    def forward(self, x):
        B, T, _ = x.shape
        g = self.nq // self.nkv
        q = self.q(x).view(B, T, self.nkv, g, self.hd)
        k, v = self.kv(x).view(B, T, 2, self.nkv, self.hd).unbind(2)
        s = torch.einsum("btngd,bsnd->bngts", q, k) * self.hd ** -0.5
        t = torch.arange(T, device=x.device)
        gap = t[:, None] - t[None, :]
        s = s.masked_fill((gap < 0) | (gap >= self.window), float("-inf"))
        sink = self.sinks.view(1, self.nkv, g, 1, 1).expand(B, -1, -1, T, 1)
        full = torch.cat([s, sink], -1).float()
        w = full.softmax(-1)[..., :-1].to(v.dtype)
        y = torch.einsum("bngts,bsnd->btngd", w, v)
        return self.o(y.reshape(B, T, self.nq * self.hd))


class WakeWord(nn.Module):
    def __init__(self, mel=40, dim=48, layers=2, words=3):
        super().__init__()
        self.inp = nn.Linear(mel, dim)
        self.layers = nn.ModuleList(SinkWindowAttention(dim, 6, 2, 25) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.cls = nn.Linear(dim, words + 1)

    def forward(self, mel):
        x = self.inp(mel)
        for n, a in zip(self.norms, self.layers):
            x = x + a(n(x))
        return self.cls(x)


if __name__ == "__main__":
    print(WakeWord()(torch.randn(1, 100, 40)).shape)
