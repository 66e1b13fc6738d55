"""Load forecasting for the district heating customers (PatchTST, small).

Every channel is forecast on its own by the same network; the series is cut in
patches, patches are tokens.

Forecaster(cfg): cfg is a dict with keys
    look_back, horizon, patch, stride, dim, heads, layers
forward(x): x [B, look_back, C] -> [B, horizon, C]
"""
import torch
from torch import nn

CFG = dict(look_back=48, horizon=12, patch=8, stride=4, dim=32, heads=4, layers=2)


class RevIN:
    """per series and per window: z = (x - mean) / std, and back"""

    def fit(self, x):
        self.m = x.mean(1, keepdim=True)
        self.s = (x.var(1, keepdim=True, unbiased=False) + 1e-5).sqrt()
        return (x - self.m) / self.s

    def back(self, y):
        return y * self.s + self.m


class Block(nn.Module):
    """pre-norm encoder block on [N, tokens, dim]"""

    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.mix = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, z):
        h = self.n1(z)
        z = z + self.mix(h, h, h, need_weights=False)[0]
        return z + self.ff(self.n2(z))


class Forecaster(nn.Module):
    def __init__(self, cfg=CFG):
        super().__init__()
        self.cfg = cfg
        self.n_tok = (cfg["look_back"] - cfg["patch"]) // cfg["stride"] + 1
        self.inp = nn.Linear(cfg["patch"], cfg["dim"])
        self.pos = nn.Parameter(0.02 * torch.randn(self.n_tok, cfg["dim"]))
        self.blocks = nn.ModuleList([Block(cfg["dim"], cfg["heads"]) for _ in range(cfg["layers"])])
        self.out = nn.Linear(self.n_tok * cfg["dim"], cfg["horizon"])

    def forward(self, x):
        c = self.cfg
        B, _, C = x.shape
        norm = RevIN()
        x = norm.fit(x)
        x = x.transpose(1, 2).reshape(B * C, c["look_back"])
        p = x.unfold(-1, c["patch"], c["stride"])          # [B*C, tokens, patch]
        z = self.inp(p) + self.pos
        for b in self.blocks:
            z = b(z)
        y = self.out(z.flatten(1))                          # [B*C, horizon]
        y = y.view(B, C, c["horizon"]).transpose(1, 2)
        return norm.back(y)
