"""Blocked local attention with a halo (Vaswani et al. 2021), single scale.

The image is cut into tiles of ``tile`` x ``tile`` pixels. The pixels of a tile
attend to the tile enlarged by ``halo`` pixels at each side. Places of the
enlarged tile that lie outside of the image are left out of the softmax.

    img (B, C, H, W), H and W multiples of ``tile``  ->  (B, C, H, W)
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class HaloAttention(nn.Module):
    def __init__(self, C: int, heads: int = 2, tile: int = 4, halo: int = 1):
        super().__init__()
        self.heads, self.tile, self.halo = heads, tile, halo
        self.d = C // heads
        self.to_q = nn.Conv2d(C, C, 1, bias=False)
        self.to_kv = nn.Conv2d(C, 2 * C, 1, bias=False)
        self.out = nn.Conv2d(C, C, 1)

    def _big_tiles(self, t):
        """(B, c, H, W) -> (B, tiles, c, side*side), zeros outside."""
        side = self.tile + 2 * self.halo
        cols = F.unfold(t, side, stride=self.tile, padding=self.halo)
        return cols.view(t.size(0), t.size(1), side * side, -1).permute(0, 3, 1, 2)

    def forward(self, img):
        B, C, H, W = img.shape
        q = F.unfold(self.to_q(img), self.tile, stride=self.tile)
        n = q.size(-1)
        q = q.view(B, self.heads, self.d, self.tile ** 2, n).permute(0, 4, 1, 3, 2)
        kv = self._big_tiles(self.to_kv(img))
        k, v = kv.chunk(2, dim=2)
        k = k.reshape(B, n, self.heads, self.d, -1)
        v = v.reshape(B, n, self.heads, self.d, -1)

        logits = (q * self.d ** -0.5) @ k                     # B n h tile^2 side^2
        inside = self._big_tiles(img.new_ones(1, 1, H, W)) > 0
        logits = logits.masked_fill(~inside[:, :, :, None, :], float("-inf"))
        o = logits.softmax(-1) @ v.transpose(-1, -2)          # B n h tile^2 d

        o = o.permute(0, 2, 4, 3, 1).reshape(B, C * self.tile ** 2, n)
        o = F.fold(o, (H, W), self.tile, stride=self.tile)
        return self.out(o)
