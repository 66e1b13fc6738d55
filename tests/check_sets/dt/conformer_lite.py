# -*- coding: utf-8 -*-
"""Conformer (lite) encoder block for our keyword spotting experiments.

feats : (batch, frames, dim)
lens  : (batch,) number of real frames in each utterance; frames >= lens are padding.

Layout: half FFN -> self attention -> depthwise conv -> half FFN -> LayerNorm.
No real frame may attend to a padded frame. What the padded frames themselves get is of no
interest, the CTC loss never looks at them.
"""
import torch
import torch.nn as nn


class MHSA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.dk = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, pad):
        # pad: (batch, frames) bool, True = padding
        b, t, d = x.shape
        q, k, v = self.qkv(x).reshape(b, t, 3, self.heads, self.dk).permute(2, 0, 3, 1, 4)
        e = q @ k.transpose(-1, -2) * self.dk ** -0.5          # (b, h, t, t)
        e = e.masked_fill(pad[:, None, :, None], torch.finfo(e.dtype).min)
        w = torch.softmax(e, dim=-1)
        y = (w @ v).transpose(1, 2).reshape(b, t, d)
        return self.o(y)


class ConvModule(nn.Module):
    def __init__(self, dim, kernel=7):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.pw1 = nn.Conv1d(dim, 2 * dim, 1)
        self.dw = nn.Conv1d(dim, dim, kernel, padding=kernel // 2, groups=dim)
        self.ln = nn.LayerNorm(dim)
        self.pw2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x, pad):
        y = nn.functional.glu(self.pw1(self.norm(x).transpose(1, 2)), dim=1)
        y = y.masked_fill(pad[:, None, :], 0.0)
        y = self.ln(self.dw(y).transpose(1, 2)).transpose(1, 2)
        y = self.pw2(nn.functional.silu(y))
        return y.transpose(1, 2)


class ConformerLite(nn.Module):
    def __init__(self, dim=48, heads=4):
        super().__init__()
        ff = lambda: nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.SiLU(),
                                   nn.Linear(4 * dim, dim))
        self.ff1, self.ff2 = ff(), ff()
        self.n_att = nn.LayerNorm(dim)
        self.att = MHSA(dim, heads)
        self.conv = ConvModule(dim)
        self.n_out = nn.LayerNorm(dim)

    def forward(self, feats, lens):
        pad = torch.arange(feats.size(1), device=feats.device)[None] >= lens[:, None]
        x = feats + 0.5 * self.ff1(feats)
        x = x + self.att(self.n_att(x), pad)
        x = x + self.conv(x, pad)
        x = x + 0.5 * self.ff2(x)
        return self.n_out(x)
