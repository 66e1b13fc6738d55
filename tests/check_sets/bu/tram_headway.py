"""tram_headway - smooths the gaps between trams on one line.

Stops are in line order.  Trams pass news in both directions, so the distance
penalty is symmetric: -slope * |i - j|.  Slopes as in Press et al. (2022),
with their recipe for head counts that are not powers of two.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn


def geometric(n):
    first = 2.0 ** (-8.0 / n)
    return [first ** (h + 1) for h in range(n)]


def penalty_slopes(n_heads):
    if math.log2(n_heads).is_integer():
        return geometric(n_heads)
    lower = 2 ** math.floor(math.log2(n_heads))
    extra = geometric(2 * lower)[0::2][: n_heads - lower]
    return geometric(lower) + extra


def stop_distance(n):
    at = torch.arange(n)
    return (at[:, None] - at[None, :]).abs()


class HeadwayMixer(nn.Module):
    """x: (batch, stop, dim); in_service: (batch, stop) bool, True = stop is served."""

    def __init__(self, dim=24, heads=6, ff=48):
        super().__init__()
        self.heads = heads
        self.pre = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, dim * 3)
        self.out = nn.Linear(dim, dim)
        self.ff = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, ff), nn.GELU(), nn.Linear(ff, dim))
        self.register_buffer("slopes", torch.tensor(penalty_slopes(heads)))

    def bias(self, n, like):
        dist = stop_distance(n).to(like)
        return -self.slopes.to(like)[:, None, None] * dist

    def attend(self, x, in_service):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        score = torch.einsum("bhid,bhjd->bhij", q, k) / (d // self.heads) ** 0.5
        score = score + self.bias(n, score)
        if in_service is not None:
            score = score.masked_fill(~in_service[:, None, None, :], torch.finfo(score.dtype).min)
        w = F.softmax(score, dim=-1)
        y = torch.einsum("bhij,bhjd->bihd", w, v)
        return self.out(y.reshape(b, n, d))

    def forward(self, x, in_service=None):
        x = x + self.attend(self.pre(x), in_service)
        return x + self.ff(x)


class HeadwayNet(nn.Module):
    def __init__(self, n_features=5, dim=24, depth=2):
        super().__init__()
        self.enter = nn.Linear(n_features, dim)
        self.mix = nn.ModuleList(HeadwayMixer(dim) for _ in range(depth))
        self.minutes = nn.Linear(dim, 1)

    def forward(self, feats, in_service=None):
        h = self.enter(feats)
        for layer in self.mix:
            h = layer(h, in_service)
        return F.softplus(self.minutes(h)).squeeze(-1)
