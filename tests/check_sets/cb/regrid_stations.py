"""Learned interpolation of station reports onto a regular grid (2 m temperature).

Every grid cell asks all the stations: cross-attention with queries from static grid
features (lat, lon, orography, land-sea mask) and keys/values from the reports. Any
number of cells and any number of stations; one forward pass per analysis time.
"""
import torch
import torch.nn as nn


def fourier(coords, n=4):
    """lat/lon in [-1, 1] -> sin/cos features"""
    f = coords[..., None] * (2.0 ** torch.arange(n, device=coords.device)) * torch.pi
    return torch.cat([f.sin(), f.cos()], dim=-1).flatten(-2)


class CrossBlock(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.hd = dim // heads
        self.nq = nn.LayerNorm(dim)
        self.nm = nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.nf = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim))

    def forward(self, cells, stations):
        m = self.nm(stations)
        b, n, c = m.shape
        q = self.q(self.nq(cells)).view(b, n, self.heads, self.hd).transpose(1, 2)
        k = self.k(m).view(b, n, self.heads, self.hd).transpose(1, 2)
        v = self.v(m).view(b, n, self.heads, self.hd).transpose(1, 2)
        w = torch.softmax(q @ k.transpose(-1, -2) * self.hd ** -0.5, dim=-1)
        y = (w @ v).transpose(1, 2).flatten(2)
        cells = cells + self.o(y)
        return cells + self.ff(self.nf(cells))


class Regridder(nn.Module):
    def __init__(self, n_static=2, n_obs=3, dim=32, heads=4, depth=2):
        super().__init__()
        self.cell_in = nn.Linear(16 + n_static, dim)
        self.obs_in = nn.Linear(16 + n_obs, dim)
        self.blocks = nn.ModuleList([CrossBlock(dim, heads) for _ in range(depth)])
        self.t2m = nn.Linear(dim, 1)

    def forward(self, cell_xy, cell_static, obs_xy, obs):
        """cell_xy [B, G, 2], cell_static [B, G, n_static], obs_xy [B, S, 2], obs [B, S, n_obs] -> [B, G]"""
        cells = self.cell_in(torch.cat([fourier(cell_xy), cell_static], -1))
        stations = self.obs_in(torch.cat([fourier(obs_xy), obs], -1))
        for blk in self.blocks:
            cells = blk(cells, stations)
        return self.t2m(cells).squeeze(-1)
