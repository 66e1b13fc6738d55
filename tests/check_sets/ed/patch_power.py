"""Channel-independent patch transformer for household power (PatchTST flavour).

x   (B, L, C) last L quarter hours of C meters
->  (B, horizon, C)

Each meter is normalised by its own mean and deviation, cut into non-overlapping patches
of P steps (L is a multiple of P), encoded with a standard encoder (multi-head scaled
dot product, sqrt of the head size; all patches see all patches) and mapped linearly to
the horizon.  Dropout is for training; in eval() two calls give the same forecast.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class EncoderLayer(nn.Module):
    def __init__(self, d_model, n_heads, dropout):
        super().__init__()
        self.d_model, self.n_heads, self.dropout = d_model, n_heads, dropout
        self.d_k = d_model // n_heads
        self.w_qs = nn.Linear(d_model, d_model)
        self.w_ks = nn.Linear(d_model, d_model)
        self.w_vs = nn.Linear(d_model, d_model)
        self.fc = nn.Linear(d_model, d_model)
        self.norm1 = nn.LayerNorm(d_model)
        self.norm2 = nn.LayerNorm(d_model)
        self.ff = nn.Sequential(nn.Linear(d_model, 2 * d_model), nn.GELU(), nn.Linear(2 * d_model, d_model))

    def attend(self, x):
        n, s, _ = x.shape
        q = self.w_qs(x).view(n, s, self.n_heads, self.d_k).transpose(1, 2)
        k = self.w_ks(x).view(n, s, self.n_heads, self.d_k).transpose(1, 2)
        v = self.w_vs(x).view(n, s, self.n_heads, self.d_k).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / math.sqrt(self.d_model)
        attn = F.dropout(F.softmax(scores, dim=-1), self.dropout)
        out = torch.matmul(attn, v).transpose(1, 2).contiguous().view(n, s, self.d_model)
        return self.fc(out)

    def forward(self, x):
        x = self.norm1(x + self.attend(x))
        return self.norm2(x + self.ff(x))


class PatchPower(nn.Module):
    def __init__(self, length=96, patch=8, horizon=24, d_model=64, n_heads=4, layers=2, dropout=0.1):
        super().__init__()
        self.patch = patch
        self.inp = nn.Linear(patch, d_model)
        self.pos = nn.Parameter(torch.randn(length // patch, d_model) * 0.02)
        self.layers = nn.ModuleList(EncoderLayer(d_model, n_heads, dropout) for _ in range(layers))
        self.out = nn.Linear(length // patch * d_model, horizon)

    def forward(self, x):
        b, l, c = x.shape
        mu = x.mean(1, keepdim=True)
        sd = x.std(1, keepdim=True) + 1e-5
        z = ((x - mu) / sd).transpose(1, 2).reshape(b * c, l // self.patch, self.patch)
        z = self.inp(z) + self.pos
        for layer in self.layers:
            z = layer(z)
        y = self.out(z.flatten(1)).view(b, c, -1).transpose(1, 2)
        return y * sd + mu
