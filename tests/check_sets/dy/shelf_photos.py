"""Retail: shelf photos, one row of pixels at a time, windows shifted by half.

ShelfBlock(dim, heads, win).forward(x) -> (B, W, dim)
    x  (B, W, dim), W a multiple of win, win even.  A row is a closed ring (panorama), so
       that windows may go round the end: no mask is wanted.
Ring positions are cut into windows starting at win/2, 3 win/2, ...; a pixel attends to the
pixels of its window (1/sqrt(dim / heads)).  Row w of the result belongs to pixel w of x
(residual connection inside).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class ShelfBlock(nn.Module):
    def __init__(self, dim, heads, win):
        super().__init__()
        self.heads, self.win, self.shift = heads, win, win // 2
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        B, W, C = x.shape
        t = torch.roll(self.norm(x), -self.shift, dims=1)
        t = self.qkv(t).view(B, W // self.win, self.win, 3, self.heads, C // self.heads)
        q, k, v = t.permute(3, 0, 1, 4, 2, 5)
        y = F.scaled_dot_product_attention(q, k, v)
        y = y.transpose(2, 3).reshape(B, W, C)
        y = torch.roll(self.out(y), -self.shift, dims=1)
        return x + y
