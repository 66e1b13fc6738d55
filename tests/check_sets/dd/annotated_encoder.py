import math
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class EncoderConfig:
    d_model: int = 48
    n_heads: int = 6
    d_ff: int = 96
    dropout: float = 0.1


def attention(query, key, value, mask=None, p_drop=0.0, training=False):
    "Scaled dot product attention; mask is 0 where a key may not be seen."
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, torch.finfo(scores.dtype).min)
    p_attn = F.softmax(scores, dim=-1)
    p_attn = F.dropout(p_attn, p_drop, training=training)
    return torch.matmul(p_attn, value)


class EncoderLayer(nn.Module):
    def __init__(self, cfg: EncoderConfig = EncoderConfig()):
        super().__init__()
        self.cfg = cfg
        self.linears = nn.ModuleList([nn.Linear(cfg.d_model, cfg.d_model) for _ in range(4)])
        self.ff = nn.Sequential(nn.Linear(cfg.d_model, cfg.d_ff), nn.ReLU(), nn.Linear(cfg.d_ff, cfg.d_model))
        self.norm1 = nn.LayerNorm(cfg.d_model)
        self.norm2 = nn.LayerNorm(cfg.d_model)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x, src_mask=None):
        """x: (batch, len, d_model), src_mask: (batch, 1, len) with ones for tokens, zeros for padding"""
        nb, L, _ = x.shape
        h = self.cfg.n_heads
        q, k, v = (lin(x).view(nb, L, h, -1).transpose(1, 2) for lin in self.linears[:3])
        if src_mask is not None:
            src_mask = src_mask.unsqueeze(1)
        out = attention(q, k, v, src_mask, self.cfg.dropout, self.training)
        out = out.transpose(1, 2).contiguous().view(nb, L, -1)
        x = self.norm1(x + self.drop(self.linears[-1](out)))
        return self.norm2(x + self.drop(self.ff(x)))
