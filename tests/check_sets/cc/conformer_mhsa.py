"""Self-attention module of a Conformer encoder for speech recognition.

Relative positions are those of Transformer-XL: a content term (q + u).k and a
position term (q + v).p, where p is a projected sinusoid of the distance i - j.
Both are summed before the scaling.  Frames of padding take no part, and an
utterance of padding alone gets zero weights.
"""
import math

import torch
from torch import nn


def relative_sinusoids(t: int, d: int) -> torch.Tensor:
    """[2t-1, d], for the distances t-1, t-2, ..., -(t-1)."""
    dist = torch.arange(t - 1, -t, -1, dtype=torch.float32).unsqueeze(1)
    div = torch.exp(torch.arange(0, d, 2).float() * -(math.log(10000.0) / d))
    pe = torch.zeros(2 * t - 1, d)
    pe[:, 0::2] = torch.sin(dist * div)
    pe[:, 1::2] = torch.cos(dist * div)
    return pe


class RelPositionMHSA(nn.Module):
    def __init__(self, d_model: int = 32, n_head: int = 4, dropout: float = 0.1):
        super().__init__()
        self.h, self.d_k = n_head, d_model // n_head
        self.norm = nn.LayerNorm(d_model)
        self.linear_q = nn.Linear(d_model, d_model)
        self.linear_k = nn.Linear(d_model, d_model)
        self.linear_v = nn.Linear(d_model, d_model)
        self.linear_pos = nn.Linear(d_model, d_model, bias=False)
        self.linear_out = nn.Linear(d_model, d_model)
        self.bias_u = nn.Parameter(torch.empty(n_head, self.d_k))
        self.bias_v = nn.Parameter(torch.empty(n_head, self.d_k))
        nn.init.xavier_uniform_(self.bias_u)
        nn.init.xavier_uniform_(self.bias_v)
        self.attn_drop = nn.Dropout(dropout)
        self.out_drop = nn.Dropout(dropout)

    @staticmethod
    def rel_shift(x):
        """[B, H, T, 2T-1] -> [B, H, T, T]: entry (i, j) becomes that of i - j."""
        b, h, t, n = x.shape
        x = torch.cat([x.new_zeros(b, h, t, 1), x], dim=-1)
        x = x.view(b, h, n + 1, t)[:, :, 1:].view(b, h, t, n)
        return x[..., : n // 2 + 1]

    def forward(self, x, lengths):
        b, t, _ = x.shape
        y = self.norm(x)
        q = self.linear_q(y).view(b, t, self.h, self.d_k)
        k = self.linear_k(y).view(b, t, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(y).view(b, t, self.h, self.d_k).transpose(1, 2)
        pe = relative_sinusoids(t, self.h * self.d_k).to(x)
        p = self.linear_pos(pe).view(2 * t - 1, self.h, self.d_k).transpose(0, 1)

        ac = (q + self.bias_u).transpose(1, 2) @ k.transpose(-2, -1)
        bd = self.rel_shift((q + self.bias_v).transpose(1, 2) @ p.transpose(-2, -1))
        scores = (ac + bd) / math.sqrt(self.d_k)

        pad = torch.arange(t, device=x.device)[None] >= lengths[:, None]
        pad = pad[:, None, None, :]
        scores = scores.masked_fill(pad, torch.finfo(scores.dtype).min)
        attn = torch.softmax(scores, dim=-1).masked_fill(pad, 0.0)
        ctx = self.attn_drop(attn) @ v
        ctx = ctx.transpose(1, 2).contiguous().view(b, t, self.h * self.d_k)
        return x + self.out_drop(self.linear_out(ctx))
