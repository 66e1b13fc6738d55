# coding=utf-8
"""PyTorch Koala model (code completion, a Llama with other names)."""
from typing import Optional, Tuple

import torch
from torch import nn


class KoalaConfig:
    def __init__(self, breite=64, koepfe=8, kv_koepfe=2, theta=10000.0):
        self.hidden_size = breite
        self.num_attention_heads = koepfe
        self.num_key_value_heads = kv_koepfe
        self.rope_theta = theta


def expand_kv(h: torch.Tensor, groups: int) -> torch.Tensor:
    """(batch, kv_heads, len, dim) -> (batch, kv_heads * groups, len, dim)

    As in the released checkpoints, query heads 0..groups-1 belong to key/value head 0,
    the next `groups` query heads to key/value head 1, and so forth.
    """
    if groups == 1:
        return h
    b, n, l, d = h.shape
    h = h[:, None].expand(b, groups, n, l, d)
    return h.reshape(b, n * groups, l, d)


class KoalaRotary(nn.Module):
    def __init__(self, dim, theta):
        super().__init__()
        self.register_buffer("inv", theta ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, positions):
        f = positions[..., None].float() * self.inv
        f = torch.cat((f, f), dim=-1)
        return f.cos(), f.sin()


def halbdreh(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class KoalaAttention(nn.Module):
    def __init__(self, config: KoalaConfig):
        super().__init__()
        self.nh = config.num_attention_heads
        self.nkv = config.num_key_value_heads
        self.hd = config.hidden_size // self.nh
        self.q_proj = nn.Linear(config.hidden_size, self.nh * self.hd, bias=False)
        self.k_proj = nn.Linear(config.hidden_size, self.nkv * self.hd, bias=False)
        self.v_proj = nn.Linear(config.hidden_size, self.nkv * self.hd, bias=False)
        self.o_proj = nn.Linear(self.nh * self.hd, config.hidden_size, bias=False)
        self.rotary = KoalaRotary(self.hd, config.rope_theta)

    def forward(
        self,
        hidden: torch.Tensor,
        positions: torch.Tensor,
        past: Optional[Tuple[torch.Tensor, torch.Tensor]] = None,
    ):
        b, l, _ = hidden.shape
        q = self.q_proj(hidden).view(b, l, self.nh, self.hd).transpose(1, 2)
        k = self.k_proj(hidden).view(b, l, self.nkv, self.hd).transpose(1, 2)
        v = self.v_proj(hidden).view(b, l, self.nkv, self.hd).transpose(1, 2)
        cos, sin = (t.unsqueeze(1).to(q.dtype) for t in self.rotary(positions))
        q = q * cos + halbdreh(q) * sin
        k = k * cos + halbdreh(k) * sin
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)
        present = (k, v)
        k, v = expand_kv(k, self.nh // self.nkv), expand_kv(v, self.nh // self.nkv)
        w = torch.matmul(q, k.transpose(2, 3)) * self.hd ** -0.5
        m = k.shape[2]
        later = torch.arange(m, device=q.device)[None] > torch.arange(m - l, m, device=q.device)[:, None]
        w = w.masked_fill(later, torch.finfo(w.dtype).min)
        w = torch.softmax(w, dim=-1, dtype=torch.float32).to(q.dtype)
        y = torch.matmul(w, v).transpose(1, 2).reshape(b, l, -1)
        return self.o_proj(y), present
