"""Sales forecast for 14 days with encoder and decoder (Informer style, full attention).

Model(cfg)(past, known):
    past   [B, S, n_past]   sales, price, weather ...
    known  [B, Q, n_known]  start tokens and the days asked for, in time order
    ->     [B, Q]           a forecast for each row of `known`

The decoder is auto-regressive: row t of the output may depend on rows 0..t of `known`
only (later rows hold, in training, promotions that are decided late).  The encoder and
the reading of the encoder by the decoder are not restricted.
"""
from math import sqrt

import torch
import torch.nn as nn

cfg = dict(n_past=5, n_known=3, d_model=32, n_heads=4, e_layers=1, d_layers=1)


class FullAttention(nn.Module):
    def __init__(self, mask_flag=True, scale=None):
        super().__init__()
        self.mask_flag, self.scale = mask_flag, scale

    def forward(self, queries, keys, values):
        B, L, H, E = queries.shape
        scale = self.scale or 1.0 / sqrt(E)
        scores = torch.einsum("blhe,bshe->bhls", queries, keys)
        A = torch.softmax(scale * scores, dim=-1)
        return torch.einsum("bhls,bshd->blhd", A, values).contiguous()


class AttentionLayer(nn.Module):
    def __init__(self, inner, d, h):
        super().__init__()
        self.inner, self.h = inner, h
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(d, d) for _ in range(4))

    def forward(self, x, mem):
        f = lambda lin, t: lin(t).unflatten(-1, (self.h, -1))
        return self.wo(self.inner(f(self.wq, x), f(self.wk, mem), f(self.wv, mem)).flatten(2))


class EncLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.att = AttentionLayer(FullAttention(mask_flag=False), d, h)
        self.n = nn.LayerNorm(d)

    def forward(self, x):
        return self.n(x + self.att(x, x))


class DecLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.self_att = AttentionLayer(FullAttention(mask_flag=True), d, h)
        self.cross = AttentionLayer(FullAttention(mask_flag=False), d, h)
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x, mem):
        x = self.n1(x + self.self_att(x, x))
        return self.n2(x + self.cross(x, mem))


class Model(nn.Module):
    def __init__(self, c=cfg):
        super().__init__()
        d, h = c["d_model"], c["n_heads"]
        self.e_in, self.d_in = nn.Linear(c["n_past"], d), nn.Linear(c["n_known"], d)
        self.enc = nn.ModuleList([EncLayer(d, h) for _ in range(c["e_layers"])])
        self.dec = nn.ModuleList([DecLayer(d, h) for _ in range(c["d_layers"])])
        self.out = nn.Linear(d, 1)

    def forward(self, past, known):
        m, x = self.e_in(past), self.d_in(known)
        for layer in self.enc:
            m = layer(m)
        for layer in self.dec:
            x = layer(x, m)
        return self.out(x).squeeze(-1)
