# Conformer: multi-headed self-attention with relative positional encoding + depthwise conv module
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def rel_sinusoid(length, d):
    """(2 * length - 1, d): row r belongs to the distance length - 1 - r, from far past to far future"""
    pos = torch.arange(length - 1, -length, -1).float()
    inv = torch.exp(torch.arange(0, d, 2).float() * -(math.log(10000.0) / d))
    ang = pos[:, None] * inv[None]
    pe = torch.zeros(2 * length - 1, d)
    pe[:, 0::2], pe[:, 1::2] = ang.sin(), ang.cos()
    return pe


class RelMHSA(nn.Module):
    def __init__(self, d_model, heads, dropout=0.1):
        super().__init__()
        self.h, self.dk = heads, d_model // heads
        self.wq, self.wk, self.wv = (nn.Linear(d_model, d_model) for _ in range(3))
        self.wp = nn.Linear(d_model, d_model, bias=False)
        self.wo = nn.Linear(d_model, d_model)
        self.u = nn.Parameter(torch.randn(heads, self.dk) * 0.02)
        self.v = nn.Parameter(torch.randn(heads, self.dk) * 0.02)
        self.dropout = nn.Dropout(dropout)

    @staticmethod
    def shift(x):
        # (b, h, t, 2t-1) -> (b, h, t, t)
        b, h, t, n = x.shape
        x = F.pad(x, (1, 0)).view(b, h, n + 1, t)
        return x[:, :, 1:].reshape(b, h, t, n)[..., :t]

    def forward(self, x, pad=None):
        b, t, d = x.shape
        q = self.wq(x).view(b, t, self.h, self.dk)
        k = self.wk(x).view(b, t, self.h, self.dk).transpose(1, 2)
        v = self.wv(x).view(b, t, self.h, self.dk).transpose(1, 2)
        p = self.wp(rel_sinusoid(t, d).to(x)).view(1, 2 * t - 1, self.h, self.dk).transpose(1, 2)
        content = (q + self.u).transpose(1, 2) @ k.transpose(-2, -1)
        position = self.shift((q + self.v).transpose(1, 2) @ p.transpose(-2, -1))
        score = (content + position) / math.sqrt(self.dk)
        if pad is not None:
            score = score.masked_fill(pad[:, None, None, :], -1e4)
        w = self.dropout(score.softmax(-1))
        return self.wo((w @ v).transpose(1, 2).reshape(b, t, d))


class ConformerBlock(nn.Module):
    def __init__(self, d_model=32, heads=4, kernel=7, dropout=0.1):
        super().__init__()
        def ff():
            return nn.Sequential(nn.LayerNorm(d_model), nn.Linear(d_model, 4 * d_model), nn.SiLU(), nn.Dropout(dropout),
                                 nn.Linear(4 * d_model, d_model), nn.Dropout(dropout))
        self.ff1, self.ff2 = ff(), ff()
        self.ln_att = nn.LayerNorm(d_model)
        self.att = RelMHSA(d_model, heads, dropout)
        self.ln_conv = nn.LayerNorm(d_model)
        self.pw1 = nn.Conv1d(d_model, 2 * d_model, 1)
        self.dw = nn.Conv1d(d_model, d_model, kernel, padding=kernel // 2, groups=d_model)
        self.ln_dw = nn.LayerNorm(d_model)
        self.pw2 = nn.Conv1d(d_model, d_model, 1)
        self.ln_out = nn.LayerNorm(d_model)

    def conv(self, x, pad):
        y = F.glu(self.pw1(self.ln_conv(x).transpose(1, 2)), dim=1)
        if pad is not None:
            y = y.masked_fill(pad[:, None, :], 0.0)
        y = self.ln_dw(self.dw(y).transpose(1, 2))
        return self.pw2(F.silu(y).transpose(1, 2)).transpose(1, 2)

    def forward(self, x, pad=None):
        """x: (batch, time, d_model); pad: (batch, time) bool, True where padded"""
        x = x + 0.5 * self.ff1(x)
        x = x + self.att(self.ln_att(x), pad)
        x = x + self.conv(x, pad)
        x = x + 0.5 * self.ff2(x)
        return self.ln_out(x)
