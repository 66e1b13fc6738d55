"""Interpretable multi-head attention of the Temporal Fusion Transformer.

Differs from the usual one on purpose (Lim et al., section 4.4): heads have
their own queries and keys, but *one value projection is shared by all*, so that the mean
of the weights over heads is itself a weight matrix over time that can be plotted.
"""
from typing import Tuple

import torch
import torch.nn as nn
from torch import Tensor


class GLU(nn.Module):
    def __init__(self, d: int):
        super().__init__()
        self.a, self.b = nn.Linear(d, d), nn.Linear(d, d)

    def forward(self, x: Tensor) -> Tensor:
        return torch.sigmoid(self.a(x)) * self.b(x)


class InterpretableAttention(nn.Module):
    def __init__(self, d_model: int, n_head: int, dropout: float = 0.0):
        super().__init__()
        self.n_head = n_head
        self.d_head = d_model // n_head
        self.q = nn.Linear(d_model, d_model, bias=False)
        self.k = nn.Linear(d_model, d_model, bias=False)
        self.v = nn.Linear(d_model, self.d_head, bias=False)
        self.out = nn.Linear(self.d_head, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, q: Tensor, kv: Tensor, decoder_steps_from: int) -> Tuple[Tensor, Tensor]:
        b, lq, _ = q.shape
        lk = kv.shape[1]
        qs = self.q(q).view(b, lq, self.n_head, self.d_head)
        ks = self.k(kv).view(b, lk, self.n_head, self.d_head)
        vs = self.v(kv)
        score = torch.einsum("bthd,bshd->bhts", qs, ks) * self.d_head ** -0.5

        # query t is step decoder_steps_from + t of the whole series
        when_q = torch.arange(lq, device=q.device) + decoder_steps_from
        when_k = torch.arange(lk, device=q.device)
        score = score.masked_fill(when_k[None] > when_q[:, None], float("-inf"))
        attn = torch.softmax(score, dim=-1)

        heads = self.dropout(attn) @ vs.unsqueeze(1)
        return self.out(heads.mean(dim=1)), attn.mean(dim=1)


class TemporalFusionTail(nn.Module):
    """Attention over encoder + decoder steps, gate, and one output per quantile."""

    def __init__(self, d_model=24, n_head=4, quantiles=(0.1, 0.5, 0.9), dropout=0.1):
        super().__init__()
        self.attn = InterpretableAttention(d_model, n_head, dropout)
        self.gate = GLU(d_model)
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, len(quantiles))

    def forward(self, past: Tensor, future: Tensor):
        series = torch.cat([past, future], dim=1)
        a, w = self.attn(future, series, decoder_steps_from=past.shape[1])
        return self.head(self.norm(self.gate(a) + future)), w
