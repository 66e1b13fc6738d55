"""Differential attention for the starter log.

The log holds one reading per half hour (pH, dough height, room temperature, CO2); the
probes are noisy, and the difference of two attention maps removes what both maps have
in common.  Causal: a reading never looks forward.

    lam  = exp(lq1 . lk1) - exp(lq2 . lk2) + lam_init
    lam_init(depth) = 0.8 - 0.6 exp(-0.3 depth)          depth counted from 0
    head = RMSNorm((A1 - lam * A2) V) * (1 - lam_init)

A head owns two neighbouring query/key slices of width hd and one value slice of width 2 hd.
"""
import math

import torch
from torch import nn


def lam_init(depth):
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class HeadNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.g = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + self.eps) * self.g


class DifferentialStarter(nn.Module):
    def __init__(self, width, heads, depth):
        super().__init__()
        assert width % (2 * heads) == 0
        self.heads = heads
        self.hd = width // heads // 2
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.lam0 = lam_init(depth)
        for n in ("lq1", "lk1", "lq2", "lk2"):
            self.register_parameter(n, nn.Parameter(torch.randn(self.hd) * 0.1))
        self.norm = HeadNorm(2 * self.hd)

    def lam(self):
        a = torch.exp((self.lq1 * self.lk1).sum().float())
        b = torch.exp((self.lq2 * self.lk2).sum().float())
        return a - b + self.lam0

    def forward(self, x, return_maps=False):
        B, T, C = x.shape
        q = self.q(x).view(B, T, 2 * self.heads, self.hd).transpose(1, 2)
        k = self.k(x).view(B, T, 2 * self.heads, self.hd).transpose(1, 2)
        v = self.v(x).view(B, T, self.heads, 2 * self.hd).transpose(1, 2)

        s = (q * self.hd ** -0.5) @ k.mT
        ahead = torch.triu(torch.full((T, T), float("-inf"), device=x.device), 1)
        a = (s + ahead).softmax(-1, dtype=torch.float32).type_as(s)
        a = a.view(B, self.heads, 2, T, T)
        diff = a[:, :, 0] - self.lam().type_as(a) * a[:, :, 1]      # rows sum to 1 - lam

        y = self.norm(diff @ v) * (1 - self.lam0)
        y = self.out(y.transpose(1, 2).reshape(B, T, C))
        return (y, diff) if return_maps else y


class StarterForecast(nn.Module):
    def __init__(self, probes=4, width=64, heads=4, depth=3):
        super().__init__()
        self.emb = nn.Linear(probes, width)
        self.pos = nn.Embedding(512, width)
        self.att = nn.ModuleList(DifferentialStarter(width, heads, i) for i in range(depth))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))
            for _ in range(depth)
        )
        self.ln = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, probes)

    def forward(self, log):
        x = self.emb(log) + self.pos(torch.arange(log.shape[1], device=log.device))
        for n, a, m in zip(self.ln, self.att, self.mlp):
            x = x + a(n(x))
            x = x + m(x)
        return self.head(x)


def peak_time(forecast, height_channel=1):
    """Index of the highest dough in a forecast [T, probes]; the baker shapes the loaf there."""
    return int(forecast[:, height_channel].argmax())
