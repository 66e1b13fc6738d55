"""Global climate emulator: windows along the longitude, shifted in every second layer.

The grid [B, lat, lon, dim] is closed in longitude, so a shifted window may go over the
date line: cyclic roll, no mask.  A layer
    1. moves the grid by `shift` columns to the west (column j comes from j + shift),
    2. cuts it in strips of `win` columns (all latitudes) and lets the cells of a strip
       attend to each other,
    3. puts every cell back to the place it came from, and adds the result to the input.

Layer(dim, heads, win, shift)(grid) -> grid of the same shape; win divides lon.
Scores / sqrt(dim / heads).
"""
import torch
from torch import nn
import torch.nn.functional as F


class Layer(nn.Module):
    def __init__(self, dim, heads, win, shift=0):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, shift
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def to_strips(self, g):
        B, H, W, D = g.shape
        g = g.view(B, H, W // self.win, self.win, D).transpose(1, 2)
        return g.reshape(B * (W // self.win), H * self.win, D)

    def from_strips(self, s, B, H, W):
        s = s.view(B, W // self.win, H, self.win, -1).transpose(1, 2)
        return s.reshape(B, H, W, -1)

    def attend(self, s):
        N, L, D = s.shape
        q, k, v = self.qkv(s).view(N, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(1, 2).reshape(N, L, D))

    def forward(self, grid):
        B, H, W, _ = grid.shape
        g = self.norm(grid)
        if self.shift:
            g = torch.roll(g, -self.shift, dims=2)
        y = self.from_strips(self.attend(self.to_strips(g)), B, H, W)
        if self.shift:
            y = torch.roll(y, -self.shift, dims=2)
        return grid + y


def make_emulator(dim=32, heads=4, win=4, depth=2):
    return nn.Sequential(*[Layer(dim, heads, win, shift=0 if i % 2 == 0 else win // 2) for i in range(depth)])


def area_weights(n_lat):
    lat = torch.linspace(-90, 90, n_lat).deg2rad()
    w = lat.cos().clamp(min=0)
    return w / w.mean()
