"""A light Conformer encoder for keyword spotting / small ASR.

feats  (B, T, F)     filter banks
mask   (B, T) bool   True for real frames, False for padding behind the utterance
out    (B, T, classes) CTC log-probabilities; frames with mask False are undefined

Attention is bidirectional; real frames attend to all real frames of their own utterance
and to no padding frame.
"""
import math

import torch
from torch import nn


class MHSA(nn.Module):
    def __init__(self, dim, heads, dropout):
        super().__init__()
        self.h, self.d_k = heads, dim // heads
        self.linear_q = nn.Linear(dim, dim)
        self.linear_k = nn.Linear(dim, dim)
        self.linear_v = nn.Linear(dim, dim)
        self.linear_out = nn.Linear(dim, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        n = x.size(0)
        q = self.linear_q(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
        k = self.linear_k(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
        v = self.linear_v(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_k)
        min_value = torch.finfo(scores.dtype).min
        scores = scores.masked_fill(mask[:, None, None, :], min_value)
        attn = torch.softmax(scores, dim=-1)
        x = torch.matmul(self.dropout(attn), v)
        return self.linear_out(x.transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k))


class ConvModule(nn.Module):
    def __init__(self, dim, kernel=15):
        super().__init__()
        self.point1 = nn.Conv1d(dim, 2 * dim, 1)
        self.depth = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.norm = nn.BatchNorm1d(dim)
        self.point2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x, mask):
        y = nn.functional.glu(self.point1(x.transpose(1, 2)), dim=1)
        y = y.masked_fill(~mask.unsqueeze(1), 0.0)
        y = self.point2(nn.functional.silu(self.norm(self.depth(y))))
        return y.transpose(1, 2)


class ConformerBlock(nn.Module):
    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        ff = lambda: nn.Sequential(
            nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Dropout(dropout),
            nn.Linear(4 * dim, dim), nn.Dropout(dropout),
        )
        self.ff1, self.ff2 = ff(), ff()
        self.n_att, self.n_conv, self.n_out = (nn.LayerNorm(dim) for _ in range(3))
        self.att = MHSA(dim, heads, dropout)
        self.conv = ConvModule(dim)

    def forward(self, x, mask):
        x = x + 0.5 * self.ff1(x)
        x = x + self.att(self.n_att(x), mask)
        x = x + self.conv(self.n_conv(x), mask)
        x = x + 0.5 * self.ff2(x)
        return self.n_out(x)


class SmallConformer(nn.Module):
    def __init__(self, feats=40, dim=64, heads=4, depth=2, classes=30):
        super().__init__()
        self.inp = nn.Linear(feats, dim)
        self.blocks = nn.ModuleList(ConformerBlock(dim, heads) for _ in range(depth))
        self.out = nn.Linear(dim, classes)

    def forward(self, feats, mask):
        x = self.inp(feats)
        for b in self.blocks:
            x = b(x, mask)
        return self.out(x).log_softmax(-1)
