"""Protein language model with Gemma-2 style decoder layers (own training, cap 6 instead of 50).

Padding and future residues get no weight at all; weights are loaded by convert_plm.py.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class GemmaConfig:
    hidden: int = 2304
    n_heads: int = 8
    n_kv: int = 4
    head_dim: int = 256
    ffn: int = 9216
    attn_logit_cap: float = 6.0       # scores are squashed to (-cap, cap) by cap * tanh(s / cap)
    query_pre_attn_scalar: float = 256.0
    theta: float = 10000.0


class GemmaNorm(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n))

    def forward(self, x):
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return (y * (1 + self.weight.float())).type_as(x)


def rotate(x, pos, theta):
    """half-split rotary embedding, x [B, L, H, d], pos [L]"""
    d = x.shape[-1]
    f = theta ** (-torch.arange(0, d, 2, device=x.device, dtype=torch.float32) / d)
    a = pos[:, None].float() * f
    c, s = a.cos()[:, None], a.sin()[:, None]
    x1, x2 = x.float().chunk(2, -1)
    return torch.cat((x1 * c - x2 * s, x2 * c + x1 * s), -1).type_as(x)


class GemmaAttention(nn.Module):
    """Causal grouped-query attention.  valid: [B, L] bool, False for padding tokens."""

    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.q = nn.Linear(cfg.hidden, cfg.n_heads * cfg.head_dim, bias=False)
        self.k = nn.Linear(cfg.hidden, cfg.n_kv * cfg.head_dim, bias=False)
        self.v = nn.Linear(cfg.hidden, cfg.n_kv * cfg.head_dim, bias=False)
        self.o = nn.Linear(cfg.n_heads * cfg.head_dim, cfg.hidden, bias=False)

    def forward(self, x, valid):
        c = self.cfg
        B, L, _ = x.shape
        pos = torch.arange(L, device=x.device)
        q = rotate(self.q(x).view(B, L, c.n_heads, c.head_dim), pos, c.theta).transpose(1, 2)
        k = rotate(self.k(x).view(B, L, c.n_kv, c.head_dim), pos, c.theta).transpose(1, 2)
        v = self.v(x).view(B, L, c.n_kv, c.head_dim).transpose(1, 2)
        rep = c.n_heads // c.n_kv
        k, v = k.repeat_interleave(rep, 1), v.repeat_interleave(rep, 1)

        see = (pos[:, None] >= pos[None, :]) & valid[:, None, None, :]
        bias = torch.zeros(see.shape, dtype=torch.float32, device=x.device)
        bias = bias.masked_fill(~see, -1e9)
        s = (q @ k.transpose(-1, -2)).float() * c.query_pre_attn_scalar ** -0.5
        s = s + bias
        s = c.attn_logit_cap * torch.tanh(s / c.attn_logit_cap)
        p = F.softmax(s, -1).type_as(v)
        return self.o((p @ v).transpose(1, 2).reshape(B, L, -1))


class GemmaLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = GemmaAttention(cfg)
        self.n1, self.n2, self.n3, self.n4 = (GemmaNorm(cfg.hidden) for _ in range(4))
        self.gate = nn.Linear(cfg.hidden, cfg.ffn, bias=False)
        self.up = nn.Linear(cfg.hidden, cfg.ffn, bias=False)
        self.down = nn.Linear(cfg.ffn, cfg.hidden, bias=False)

    def forward(self, x, valid):
        x = x + self.n2(self.attn(self.n1(x), valid))
        h = self.n3(x)
        return x + self.n4(self.down(F.gelu(self.gate(h), approximate="tanh") * self.up(h)))
