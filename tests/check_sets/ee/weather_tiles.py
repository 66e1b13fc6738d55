"""Weather maps on a torus: attention inside shifted tiles.

ShiftedTiles(c, heads, tile, shift)

forward(sky):  sky (B, H, W, c), H and W multiples of tile, PERIODIC in both directions
            -> (B, H, W, c)

The map is moved up and left by `shift`, cut into tile x tile tiles, and within each
tile all cells attend to each other (per-head scale 1/sqrt(c / heads), no mask is needed
since the map is periodic).  Then the map is put together and moved back, so that
output cell (y, x) belongs to input cell (y, x), to which it is added.
"""
import torch
from torch import nn


class ShiftedTiles(nn.Module):
    def __init__(self, c, heads, tile, shift):
        super().__init__()
        self.heads, self.tile, self.shift = heads, tile, shift
        self.norm = nn.LayerNorm(c)
        self.qkv = nn.Linear(c, 3 * c)
        self.proj = nn.Linear(c, c)

    def cut(self, m):
        B, H, W, c = m.shape
        t = self.tile
        return m.view(B, H // t, t, W // t, t, c).transpose(2, 3).reshape(-1, t * t, c)

    def glue(self, w, B, H, W):
        t = self.tile
        return w.view(B, H // t, W // t, t, t, -1).transpose(2, 3).reshape(B, H, W, -1)

    def move(self, m):
        return torch.roll(m, shifts=(-self.shift, -self.shift), dims=(1, 2))

    def forward(self, sky):
        B, H, W, c = sky.shape
        w = self.cut(self.move(self.norm(sky)))
        q, k, v = self.qkv(w).view(-1, w.size(1), 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = (q @ k.mT / (c // self.heads) ** 0.5).softmax(-1)
        w = (a @ v).transpose(1, 2).reshape(-1, self.tile ** 2, c)
        y = self.move(self.glue(self.proj(w), B, H, W))
        return sky + y
