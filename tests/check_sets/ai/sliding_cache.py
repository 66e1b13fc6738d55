"""Sliding-window decoder layer with a growing cache (Mistral family).

`sliding_window` has the meaning of the HF config: a token sees that many positions,
its own included. sliding_window=1 is "only itself".
"""
from typing import Optional, Tuple

import torch
from torch import nn


class LayerKV:
    """Keeps everything; trimming is left to `trim`, which the scheduler calls between requests."""

    def __init__(self):
        self.keys: Optional[torch.Tensor] = None
        self.values: Optional[torch.Tensor] = None
        self.dropped = 0

    @property
    def seen(self) -> int:
        return self.dropped + (0 if self.keys is None else self.keys.size(2))

    def update(self, k, v) -> Tuple[torch.Tensor, torch.Tensor]:
        self.keys = k if self.keys is None else torch.cat([self.keys, k], dim=2)
        self.values = v if self.values is None else torch.cat([self.values, v], dim=2)
        return self.keys, self.values

    def trim(self, keep: int):
        if self.keys is not None and self.keys.size(2) > keep:
            self.dropped += self.keys.size(2) - keep
            self.keys = self.keys[:, :, -keep:]
            self.values = self.values[:, :, -keep:]


def rope(x, pos, theta):
    d = x.size(-1)
    inv = theta ** (-torch.arange(0, d, 2, device=x.device).float() / d)
    ang = pos.float()[:, None] * inv
    cos, sin = ang.cos(), ang.sin()
    a, b = x.float().chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1).type_as(x)


class SlidingAttention(nn.Module):
    def __init__(self, hidden: int, n_heads: int, n_kv: int, sliding_window: int, theta: float = 1e4):
        super().__init__()
        self.n_heads, self.n_kv, self.hd = n_heads, n_kv, hidden // n_heads
        self.sliding_window, self.theta = sliding_window, theta
        self.q_proj = nn.Linear(hidden, n_heads * self.hd, bias=False)
        self.k_proj = nn.Linear(hidden, n_kv * self.hd, bias=False)
        self.v_proj = nn.Linear(hidden, n_kv * self.hd, bias=False)
        self.o_proj = nn.Linear(n_heads * self.hd, hidden, bias=False)

    def visible(self, q_pos, k_pos):
        dist = q_pos[:, None] - k_pos[None, :]
        return (dist >= 0) & (dist <= self.sliding_window)

    def forward(self, x, kv: LayerKV):
        B, L, _ = x.shape
        q = self.q_proj(x).view(B, L, self.n_heads, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(B, L, self.n_kv, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(B, L, self.n_kv, self.hd).transpose(1, 2)
        q_pos = torch.arange(kv.seen, kv.seen + L, device=x.device)
        q, k = rope(q, q_pos, self.theta), rope(k, q_pos, self.theta)
        k, v = kv.update(k, v)
        k_pos = torch.arange(kv.dropped, kv.seen, device=x.device)
        k = k.repeat_interleave(self.n_heads // self.n_kv, dim=1)
        v = v.repeat_interleave(self.n_heads // self.n_kv, dim=1)
        s = torch.matmul(q, k.mT) * self.hd ** -0.5
        s = s.masked_fill(~self.visible(q_pos, k_pos), torch.finfo(s.dtype).min)
        w = torch.softmax(s, dim=-1, dtype=torch.float32).to(q.dtype)
        return self.o_proj(torch.matmul(w, v).transpose(1, 2).reshape(B, L, -1))


class RMSNorm(nn.Module):
    def __init__(self, d, eps=1e-6):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(d)), eps

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps))


class DecoderLayer(nn.Module):
    def __init__(self, hidden=32, n_heads=4, n_kv=2, inner=64, sliding_window=4):
        super().__init__()
        self.attn = SlidingAttention(hidden, n_heads, n_kv, sliding_window)
        self.gate, self.up = nn.Linear(hidden, inner, bias=False), nn.Linear(hidden, inner, bias=False)
        self.down = nn.Linear(inner, hidden, bias=False)
        self.n1, self.n2 = RMSNorm(hidden), RMSNorm(hidden)

    def forward(self, x, kv):
        x = x + self.attn(self.n1(x), kv)
        h = self.n2(x)
        return x + self.down(torch.nn.functional.silu(self.gate(h)) * self.up(h))
