# Scaled-cosine shifted windows on equirectangular panoramas.
#
# The left and the right edge of a panorama are the same meridian, so a cyclic
# shift along the azimuth (width) needs no mask.  Along the elevation (height)
# zenith and nadir must not meet: there the shifted windows are masked.
#
# Follows the second Swin paper: cosine similarity, learned log temperature
# (clamped at log 100), continuous position bias from log-spaced offsets.

import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def to_tiles(x, w):
    b, h, wd, c = x.shape
    x = x.view(b, h // w, w, wd // w, w, c).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, w * w, c)


def from_tiles(t, w, b, h, wd):
    t = t.view(b, h // w, wd // w, w, w, -1).permute(0, 1, 3, 2, 4, 5)
    return t.reshape(b, h, wd, -1)


def log_offsets(w):
    """[(2w-1)^2, 2] table of log-spaced offsets and [w*w, w*w] index into it."""
    r = torch.arange(-(w - 1), w, dtype=torch.float32)
    grid = torch.stack(torch.meshgrid(r, r, indexing="ij"), -1).view(-1, 2)
    grid = grid / max(w - 1, 1) * 8
    grid = grid.sign() * torch.log2(grid.abs() + 1.0) / math.log2(8)
    yx = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
    d = yx[:, :, None] - yx[:, None, :] + (w - 1)
    return grid, d[0] * (2 * w - 1) + d[1]


class CylinderWindowAttention(nn.Module):
    """x: [B, elevation, azimuth, C] -> same shape; both sides divisible by `window`."""

    def __init__(self, dim, heads, window=4, shift=0, hidden=64):
        super().__init__()
        assert 0 <= shift < window
        self.dim, self.heads, self.window, self.shift = dim, heads, window, shift
        self.tau = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.cpb = nn.Sequential(
            nn.Linear(2, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, heads, bias=False)
        )
        self.to_qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.q_bias = nn.Parameter(torch.zeros(dim))
        self.v_bias = nn.Parameter(torch.zeros(dim))
        self.out = nn.Linear(dim, dim)
        table, index = log_offsets(window)
        self.register_buffer("table", table, persistent=False)
        self.register_buffer("index", index, persistent=False)

    def seam_mask(self, h, wd, device):
        """True where two pixels of a shifted tile come from opposite poles."""
        w, s = self.window, self.shift
        zone = torch.zeros(1, h, wd, 1, device=device)
        zone[:, h - s:] = 1
        z = to_tiles(zone, w)[..., 0]
        return z[:, :, None] != z[:, None, :]                    # [tiles, N, N]

    def forward(self, x):
        b, h, wd, c = x.shape
        w, s, n = self.window, self.shift, self.window ** 2
        if s:
            x = torch.roll(x, (-s, -s), dims=(1, 2))
        t = to_tiles(x, w)
        bias = torch.cat([self.q_bias, torch.zeros_like(self.q_bias), self.v_bias])
        qkv = F.linear(t, self.to_qkv.weight, bias)
        q, k, v = qkv.view(-1, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)

        sim = F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-2, -1)
        sim = sim * self.tau.clamp(max=math.log(100.0)).exp()
        pos = 16 * torch.sigmoid(self.cpb(self.table))           # [(2w-1)^2, heads]
        sim = sim + pos[self.index].permute(2, 0, 1)
        if s:
            m = self.seam_mask(h, wd, x.device)
            sim = sim.view(b, -1, self.heads, n, n)
            sim = sim.masked_fill(m[None, :, None], float("-inf")).flatten(0, 1)
        y = (sim.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, c)
        y = from_tiles(self.out(y), w, b, h, wd)
        if s:
            y = torch.roll(y, (s, s), dims=(1, 2))
        return y


class PanoramaStage(nn.Module):
    def __init__(self, dim, heads, window=4, depth=2):
        super().__init__()
        self.attn = nn.ModuleList(
            CylinderWindowAttention(dim, heads, window, (window // 2) * (i % 2)) for i in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
            for _ in range(depth)
        )

    def forward(self, x):
        for a, n, m in zip(self.attn, self.norms, self.mlps):
            x = x + n(a(x))          # res-post-norm
            x = x + m(x)
        return x


if __name__ == "__main__":
    print(PanoramaStage(32, 4)(torch.randn(1, 8, 16, 32)).shape)
