"""Shifted-window attention for aerial crop maps (cyclic, fields wrap around)."""
import torch
from torch import nn


class ShiftedTiles(nn.Module):
    """
    img: (B, C, H, W), H and W multiples of `tile`; the same layout comes back.

    The grid of tiles is displaced by `shift` pixels down and right, cyclically;
    the maps are periodic, so pixels that meet through wrapping may see each
    other and no mask is needed. Each pixel's result is put back at that pixel
    and added to the input.
    """

    def __init__(self, C=16, heads=2, tile=4, shift=1):
        super().__init__()
        self.heads, self.tile, self.shift = heads, tile, shift
        self.norm = nn.GroupNorm(1, C)
        self.qkv = nn.Conv2d(C, 3 * C, 1)
        self.out = nn.Conv2d(C, C, 1)

    def to_tiles(self, t, B, H, W):
        m, h = self.tile, self.heads
        t = t.view(B, h, -1, H // m, m, W // m, m)
        return t.permute(0, 3, 5, 1, 4, 6, 2).reshape(-1, h, m * m, t.size(2))

    def from_tiles(self, t, B, H, W):
        m, h = self.tile, self.heads
        t = t.view(B, H // m, W // m, h, m, m, -1)
        return t.permute(0, 3, 6, 1, 4, 2, 5).reshape(B, -1, H, W)

    def forward(self, img):
        B, C, H, W = img.shape
        s = self.shift
        x = torch.roll(self.norm(img), shifts=(-s, -s), dims=(2, 3))
        q, k, v = (self.to_tiles(t, B, H, W) for t in self.qkv(x).chunk(3, dim=1))
        a = (q @ k.transpose(-1, -2)) * q.size(-1) ** -0.5
        y = a.softmax(dim=-1) @ v
        y = self.from_tiles(y, B, H, W)
        y = torch.roll(y, shifts=(-s, -s), dims=(2, 3))
        return img + self.out(y)
