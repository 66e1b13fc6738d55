"""Interpretable multi-head attention of the Temporal Fusion Transformer (Lim et al. 2021, 4.4).

Differences to the usual thing, all intended by the paper: the values are projected ONCE and
shared by all heads, and the heads are averaged rather than concatenated:

    H~ = 1/m * sum_h softmax(Q W_Q^h (K W_K^h)^T / sqrt(d_attn)) V W_V ,     out = H~ W_H

with d_attn = d_model / m, W_V: d_model x d_attn, W_H: d_attn x d_model.

x       (B, T, d_model), the encoder steps followed by the decoder steps
banned  (T, T) bool, True = this query (row) may not look at this key (column); defaults to
        the future
returns out (B, T, d_model), weights (B, T, T) averaged over heads - rows sum to 1
"""
import torch
import torch.nn as nn


class InterpretableMHA(nn.Module):
    def __init__(self, d_model=32, m=4, dropout=0.1):
        super().__init__()
        self.m, self.d_attn = m, d_model // m
        self.W_Q = nn.ModuleList(nn.Linear(d_model, self.d_attn, bias=False) for _ in range(m))
        self.W_K = nn.ModuleList(nn.Linear(d_model, self.d_attn, bias=False) for _ in range(m))
        self.W_V = nn.Linear(d_model, self.d_attn, bias=False)
        self.W_H = nn.Linear(self.d_attn, d_model, bias=False)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, banned=None):
        T = x.shape[1]
        if banned is None:
            banned = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(diagonal=1)
        V = self.W_V(x)
        acc = x.new_zeros(x.shape[0], T, T)
        for wq, wk in zip(self.W_Q, self.W_K):
            s = torch.bmm(wq(x), wk(x).transpose(1, 2)) / self.d_attn ** 0.5
            s = s.masked_fill(banned, float("-inf"))
            acc = acc + torch.softmax(s, dim=2)
        weights = acc / self.m
        # V is common to the heads, so averaging the weights is averaging the heads
        out = self.W_H(torch.bmm(weights, V))
        return self.dropout(out), weights
