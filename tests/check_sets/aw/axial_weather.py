"""Axial attention over (level, lat, lon) cubes of a reanalysis.  Tensor: B, lev, lat, lon, C.

`land_sea`-style masks are bool over the whole cube with True = value is missing.
Lines in which every value is missing give zero.
"""
import torch
from torch import nn


class AxisMHA(nn.Module):
    def __init__(self, chan, heads, axis):
        super().__init__()
        if axis not in (1, 2, 3):
            raise ValueError(axis)
        self.axis, self.heads, self.hd = axis, heads, chan // heads
        self.wq = nn.Parameter(torch.randn(heads, chan, self.hd) * chan ** -0.5)
        self.wk = nn.Parameter(torch.randn(heads, chan, self.hd) * chan ** -0.5)
        self.wv = nn.Parameter(torch.randn(heads, chan, self.hd) * chan ** -0.5)
        self.wo = nn.Parameter(torch.randn(heads, self.hd, chan) * chan ** -0.5)

    def forward(self, cube, missing=None):
        x = cube.movedim(self.axis, -2)                                    # ..., L, C
        q = torch.einsum("...lc,hce->...hle", x, self.wq)
        k = torch.einsum("...lc,hce->...hle", x, self.wk)
        v = torch.einsum("...lc,hce->...hle", x, self.wv)
        a = torch.einsum("...hle,...hme->...hlm", q, k).mul(self.hd ** -0.5)
        if missing is not None:
            gone = missing.movedim(self.axis, -1)[..., None, None, :]
            a = a.masked_fill(gone, torch.finfo(a.dtype).min)
            a = a.softmax(-1).masked_fill(gone, 0.0)
        else:
            a = a.softmax(-1)
        y = torch.einsum("...hlm,...hme->...hle", a, v)
        y = torch.einsum("...hle,hec->...lc", y, self.wo)
        return y.movedim(-2, self.axis)


class AxialBlock(nn.Module):
    def __init__(self, chan=16, heads=2):
        super().__init__()
        self.norm = nn.ModuleList([nn.LayerNorm(chan) for _ in range(3)])
        self.axes = nn.ModuleList([AxisMHA(chan, heads, a) for a in (1, 2, 3)])
        self.mlp = nn.Sequential(nn.LayerNorm(chan), nn.Linear(chan, 2 * chan), nn.SiLU(), nn.Linear(2 * chan, chan))

    def forward(self, cube, missing=None):
        for n, a in zip(self.norm, self.axes):
            cube = cube + a(n(cube), missing)
        return cube + self.mlp(cube)


def latitude_weights(n_lat):
    lat = torch.linspace(-90 + 90 / n_lat, 90 - 90 / n_lat, n_lat)
    w = torch.cos(torch.deg2rad(lat))
    return w / w.mean()


def weighted_rmse(pred, truth):
    w = latitude_weights(pred.shape[2]).view(1, 1, -1, 1, 1).to(pred)
    return ((pred - truth).square() * w).mean().sqrt()
