"""Conformer encoder block with Transformer-XL relative positions (Gulati et al. 2020)."""
import math

import torch
import torch.nn as nn


class RelPositionalTable(nn.Module):
    """Sinusoids for the distances T-1, ..., 0, ..., -(T-1)  ->  [2T-1, D]."""

    def __init__(self, dim):
        super().__init__()
        self.dim = dim

    def forward(self, T, like):
        dist = torch.arange(T - 1, -T, -1, device=like.device, dtype=like.dtype)
        inv = torch.exp(torch.arange(0, self.dim, 2, device=like.device, dtype=like.dtype) * (-math.log(1e4) / self.dim))
        ang = dist[:, None] * inv
        table = torch.zeros(2 * T - 1, self.dim, device=like.device, dtype=like.dtype)
        table[:, 0::2] = ang.sin()
        table[:, 1::2] = ang.cos()
        return table


class RelMHSA(nn.Module):
    """score(i, j) = ((q_i + u) . k_j + (q_i + v) . W r_{i-j}) / sqrt(d)

    lengths: [B] number of valid frames, or None.
    """

    def __init__(self, dim, heads, dropout=0.1):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim) for _ in range(4))
        self.wr = nn.Linear(dim, dim, bias=False)
        self.u = nn.Parameter(torch.zeros(heads, self.d))
        self.v = nn.Parameter(torch.zeros(heads, self.d))
        self.table = RelPositionalTable(dim)
        self.drop = nn.Dropout(dropout)

    @staticmethod
    def rel_shift(x):
        """[B, H, T, 2T-1] indexed by distance -> [B, H, T, T] indexed by key."""
        B, H, T, R = x.shape
        x = torch.cat([x.new_zeros(B, H, T, 1), x], dim=-1).view(B, H, R + 1, T)
        return x[:, :, 1:].reshape(B, H, T, R)[..., :T]

    def forward(self, x, lengths=None):
        B, T, D = x.shape
        q = self.wq(x).view(B, T, self.h, self.d)
        k = self.wk(x).view(B, T, self.h, self.d).permute(0, 2, 3, 1)
        v = self.wv(x).view(B, T, self.h, self.d).transpose(1, 2)
        r = self.wr(self.table(T, x)).view(-1, self.h, self.d).permute(1, 2, 0)
        ac = (q + self.u).transpose(1, 2) @ k
        bd = self.rel_shift((q + self.v).transpose(1, 2) @ r)
        score = (ac + bd) / math.sqrt(self.d)
        if lengths is not None:
            pad = torch.arange(T, device=x.device)[None] >= lengths[:, None]
            score = score.masked_fill(pad[:, None, None], torch.finfo(score.dtype).min)
        w = self.drop(score.softmax(-1))
        return self.wo((w @ v).transpose(1, 2).reshape(B, T, D))


class ConvModule(nn.Module):
    def __init__(self, dim, kernel=31):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pw1 = nn.Conv1d(dim, 2 * dim, 1)
        self.dw = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.bn = nn.BatchNorm1d(dim)
        self.pw2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x):
        y = nn.functional.glu(self.pw1(self.norm(x).transpose(1, 2)), dim=1)
        return self.pw2(nn.functional.silu(self.bn(self.dw(y)))).transpose(1, 2)


class ConformerBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        ff = lambda: nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))
        self.ff1, self.ff2 = ff(), ff()
        self.norm = nn.LayerNorm(dim)
        self.att, self.conv = RelMHSA(dim, heads), ConvModule(dim)
        self.final = nn.LayerNorm(dim)

    def forward(self, x, lengths=None):
        x = x + 0.5 * self.ff1(x)
        x = x + self.att(self.norm(x), lengths)
        x = x + self.conv(x)
        return self.final(x + 0.5 * self.ff2(x))
