"""Relative global attention (Music Transformer, Huang et al. 2018), memory-efficient version."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class RelativeGlobalAttention(nn.Module):
    """Causal self-attention with learned relative embeddings.

    logits[i, j] = (q_i . k_j + q_i . E_{i-j}) / sqrt(d)       for j <= i

    E is stored from the largest distance to the smallest: row r of `Er` is the embedding of the
    distance max_len - 1 - r, so that the last row belongs to distance 0. Shared by the heads.

    x: (B, L, d_model), L <= max_len
    """

    def __init__(self, d_model=32, num_heads=4, max_len=16, dropout=0.1):
        super().__init__()
        self.num_heads, self.d_head = num_heads, d_model // num_heads
        self.max_len = max_len
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(dropout)
        self.Er = nn.Parameter(torch.randn(max_len, self.d_head))

    def _split(self, t):
        B, L, _ = t.shape
        return t.reshape(B, L, self.num_heads, self.d_head).transpose(1, 2)

    def skew(self, QEr):
        """(B, H, L, L) indexed by (query, embedding row) -> indexed by (query, key)"""
        B, H, L, _ = QEr.shape
        padded = F.pad(QEr, (0, 1))
        return padded.reshape(B, H, L + 1, L)[:, :, 1:, :]

    def forward(self, x):
        B, L, D = x.shape
        q, k, v = self._split(self.query(x)), self._split(self.key(x)), self._split(self.value(x))

        Er = self.Er[self.max_len - L :]
        Srel = self.skew(q @ Er.t())
        logits = (q @ k.transpose(-2, -1) + Srel) / math.sqrt(self.d_head)

        future = torch.ones(L, L, dtype=torch.bool, device=x.device).triu(1)
        logits = logits.masked_fill(future, float("-inf"))
        weights = self.dropout(torch.softmax(logits, dim=-1))
        y = (weights @ v).transpose(1, 2).reshape(B, L, D)
        return self.out(y)


class PerformanceLayer(nn.Module):
    def __init__(self, d_model=32, num_heads=4, max_len=16, dropout=0.1):
        super().__init__()
        self.rga = RelativeGlobalAttention(d_model, num_heads, max_len, dropout)
        self.ff = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.ReLU(),
                                nn.Linear(4 * d_model, d_model))
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x):
        x = self.norm1(x + self.rga(x))
        return self.norm2(x + self.ff(x))
