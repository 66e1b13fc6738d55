from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F


@dataclass
class Conf:
    hidden: int = 64
    q_heads: int = 8
    kv_heads: int = 2
    eps: float = 1e-6


class RepairAttention(nn.Module):
    """Attention of a program-repair model. Loads converted weights: consecutive query heads
    share a key/value head (query head h uses kv head h // (q_heads // kv_heads))."""

    def __init__(self, conf: Conf):
        super().__init__()
        self.c = conf
        self.hd = conf.hidden // conf.q_heads
        self.norm = nn.LayerNorm(conf.hidden, eps=conf.eps)
        self.q_proj = nn.Linear(conf.hidden, conf.q_heads * self.hd, bias=False)
        self.k_proj = nn.Linear(conf.hidden, conf.kv_heads * self.hd, bias=False)
        self.v_proj = nn.Linear(conf.hidden, conf.kv_heads * self.hd, bias=False)
        self.o_proj = nn.Linear(conf.q_heads * self.hd, conf.hidden, bias=False)

    def forward(self, x):
        b, n, _ = x.shape
        h = self.norm(x)
        q = self.q_proj(h).view(b, n, self.c.q_heads, self.hd).transpose(1, 2)
        k = self.k_proj(h).view(b, n, self.c.kv_heads, self.hd).transpose(1, 2)
        v = self.v_proj(h).view(b, n, self.c.kv_heads, self.hd).transpose(1, 2)
        share = self.c.q_heads // self.c.kv_heads
        k = k.repeat(1, share, 1, 1)
        v = v.repeat(1, share, 1, 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.o_proj(y.transpose(1, 2).reshape(b, n, -1))
