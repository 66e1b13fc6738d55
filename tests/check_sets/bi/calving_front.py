"""Calving-front position from ocean forcing.

Tensors follow the convolution code: (batch, channel, time).  The front series (T1
steps) queries the forcing series (T2 steps, temperature / salinity / melange), which
has gaps; `observed` is True at the steps with data.

Output gate after "gated attention": out = sigmoid(G x) * heads, before the last 1x1.
"""
import torch
from torch import nn

SECONDS_PER_YEAR = 31556926.0
RHO_ICE, RHO_SEA = 917.0, 1027.0


def flotation_thickness(depth):
    return depth * RHO_SEA / RHO_ICE


class OceanToIce(nn.Module):
    def __init__(self, c_ice, c_sea, heads, d):
        super().__init__()
        self.heads, self.d = heads, d
        self.q = nn.Conv1d(c_ice, heads * d, 1)
        self.k = nn.Conv1d(c_sea, heads * d, 1)
        self.v = nn.Conv1d(c_sea, heads * d, 1)
        self.gate = nn.Conv1d(c_ice, heads * d, 1)
        self.back = nn.Conv1d(heads * d, c_ice, 1)

    def forward(self, ice, sea, observed=None):
        B, _, T1 = ice.shape
        T2 = sea.shape[-1]
        q = self.q(ice).view(B, self.heads, self.d, T1)
        k = self.k(sea).view(B, self.heads, self.d, T2)
        v = self.v(sea).view(B, self.heads, self.d, T2)

        # keys on axis 2, queries last: everything stays channel-first
        s = torch.einsum("bhdj,bhdi->bhji", k, q).div(self.d ** 0.5)
        if observed is not None:
            s = s.masked_fill(~observed[:, None, :, None], -torch.inf)
        a = s.softmax(dim=2)
        if observed is not None:
            # a glacier without any forcing record gets nothing from the ocean
            a = a.masked_fill(~observed.any(-1)[:, None, None, None], 0.0)
        y = torch.einsum("bhdj,bhji->bhdi", v, a).reshape(B, -1, T1)
        return self.back(torch.sigmoid(self.gate(ice)) * y)


class FrontNet(nn.Module):
    """Retreat rate in m/a, one value per time step of the front series."""

    def __init__(self, c_ice=24, c_sea=8, heads=4, d=8):
        super().__init__()
        self.stem = nn.Conv1d(5, c_ice, 3, padding=1)
        self.ocean = OceanToIce(c_ice, c_sea, heads, d)
        self.norm = nn.GroupNorm(1, c_ice)
        self.rate = nn.Conv1d(c_ice, 1, 1)

    def forward(self, geometry, sea, observed=None):
        h = self.stem(geometry)
        h = h + self.ocean(self.norm(h), sea, observed)
        return self.rate(torch.relu(h)).squeeze(1)


def loss(pred, obs, sigma):
    ok = torch.isfinite(obs)
    return (((pred - obs) / sigma)[ok] ** 2).mean()
