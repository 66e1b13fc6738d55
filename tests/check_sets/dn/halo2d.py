"""Halo attention on feature maps (after Vaswani et al. 2021).

The image is cut into blocks of block x block pixels.  The pixels of a block
read the block itself and a border of `halo` pixels around it, i.e. a window of
(block + 2 * halo)^2 pixels.  Window pixels outside the image are not read.

HaloAttention(dim, heads, block, halo)
    forward(x)   x (B, dim, H, W), H and W multiples of block -> same shape
    scores       q.k / sqrt(dim / heads) + a learned bias for each pair
                 (pixel in the block, pixel in the window) and each head
    softmax      over the window pixels
"""
import torch
import torch.nn.functional as F
from torch import nn


class HaloAttention(nn.Module):
    def __init__(self, dim, heads, block=4, halo=1):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.block = block
        self.halo = halo
        self.win = block + 2 * halo
        self.to_q = nn.Conv2d(dim, dim, 1, bias=False)
        self.to_kv = nn.Conv2d(dim, 2 * dim, 1, bias=False)
        self.proj = nn.Conv2d(dim, dim, 1)
        self.pair_bias = nn.Parameter(torch.zeros(heads, block ** 2, self.win ** 2))

    def _windows(self, t):
        # (B, c, H, W) -> (B, c, win*win, blocks)
        B, c = t.shape[:2]
        cols = F.unfold(t, kernel_size=self.win, stride=self.block, padding=self.halo)
        return cols.view(B, c, self.win ** 2, -1)

    def forward(self, x):
        B, C, H, W = x.shape
        b, h = self.block, self.heads
        d = C // h
        nh, nw = H // b, W // b

        q = self.to_q(x).view(B, h, d, nh, b, nw, b)
        q = q.permute(0, 3, 5, 1, 4, 6, 2).reshape(B, nh * nw, h, b * b, d)

        k, v = self.to_kv(x).chunk(2, dim=1)
        k = self._windows(k).view(B, h, d, self.win ** 2, nh * nw)
        v = self._windows(v).view(B, h, d, self.win ** 2, nh * nw)

        scores = torch.einsum("bnhqd,bhdkn->bnhqk", q, k) * d ** -0.5
        scores = scores + self.pair_bias

        inside = self._windows(x.new_ones(1, 1, H, W))            # (1, 1, win^2, blocks)
        inside = inside.permute(0, 3, 1, 2).unsqueeze(3) > 0.5    # (1, blocks, 1, 1, win^2)
        scores = scores.masked_fill(~inside, float("-inf"))

        y = torch.einsum("bnhqk,bhdkn->bnhqd", scores.softmax(-1), v)
        y = y.view(B, nh, nw, h, b, b, d).permute(0, 3, 6, 1, 4, 2, 5)
        return self.proj(y.reshape(B, C, H, W))
