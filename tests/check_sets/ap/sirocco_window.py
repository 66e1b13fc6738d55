"""Sirocco language model: rotating key/value buffer and sliding window.

sliding_window is the number of keys a token sees, ITSELF INCLUDED: with
sliding_window = 4 the token at position 9 sees the positions 6, 7, 8 and 9.
"""
import torch
from torch import nn
from torch.nn import functional as F


class SiroccoConfig(dict):
    __getattr__ = dict.__getitem__

    @classmethod
    def tiny(cls, **kw):
        base = dict(hidden=32, heads=4, kv_heads=2, sliding_window=4, max_pos=64, theta=1e4)
        base.update(kw)
        return cls(base)


def rotate(x, pos, theta):
    half = x.shape[-1] // 2
    freq = theta ** (-torch.arange(half, dtype=torch.float32, device=x.device) / half)
    ang = pos[:, None].float() * freq
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat((x1 * cos - x2 * sin, x2 * cos + x1 * sin), dim=-1)


class Buffer:
    """Keeps only as many keys as later tokens can still ask for."""

    def __init__(self, window):
        self.window, self.k, self.v, self.pos = window, None, None, None
        self.seen = 0

    def push(self, k, v, pos):
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
            pos = torch.cat([self.pos, pos])
        self.seen = int(pos[-1]) + 1
        self.k, self.v, self.pos = k[:, :, -self.window:], v[:, :, -self.window:], pos[-self.window:]
        return k, v, pos


def window_mask(qpos, kpos, sliding_window):
    """bool [Lq, Lk], True = visible."""
    dist = qpos[:, None] - kpos[None, :]
    return (dist >= 0) & (dist <= sliding_window)


class SiroccoAttention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.hd = cfg.hidden // cfg.heads
        self.q_proj = nn.Linear(cfg.hidden, cfg.heads * self.hd, bias=False)
        self.k_proj = nn.Linear(cfg.hidden, cfg.kv_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(cfg.hidden, cfg.kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(cfg.heads * self.hd, cfg.hidden, bias=False)

    def forward(self, x, buffer=None):
        """x [B, L, hidden]; with a buffer, x continues what the buffer has seen."""
        B, L, _ = x.shape
        cfg = self.cfg
        start = buffer.seen if buffer is not None else 0
        pos = torch.arange(start, start + L, device=x.device)
        q = self.q_proj(x).view(B, L, cfg.heads, self.hd).transpose(1, 2)
        k = self.k_proj(x).view(B, L, cfg.kv_heads, self.hd).transpose(1, 2)
        v = self.v_proj(x).view(B, L, cfg.kv_heads, self.hd).transpose(1, 2)
        q, k = rotate(q, pos, cfg.theta), rotate(k, pos, cfg.theta)
        kpos = pos
        if buffer is not None:
            k, v, kpos = buffer.push(k, v, pos)
        rep = cfg.heads // cfg.kv_heads
        k, v = k.repeat_interleave(rep, dim=1), v.repeat_interleave(rep, dim=1)
        mask = window_mask(pos, kpos, cfg.sliding_window)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(y.transpose(1, 2).reshape(B, L, -1))
