"""Axial attention for land-cover maps of satellite images."""
import torch
import torch.nn as nn


class Axis(nn.Module):
    """Self attention along the second-last axis of (..., L, D)."""

    def __init__(self, D, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(D, D, bias=False) for _ in range(4))

    def forward(self, x):
        *lead, L, D = x.shape
        x = x.reshape(-1, L, D)
        n, h, d = len(x), self.heads, D // self.heads
        q = self.q(x).view(n, L, h, d).transpose(1, 2)
        k = self.k(x).view(n, L, h, d).transpose(1, 2)
        v = self.v(x).view(n, L, h, d).transpose(1, 2)
        w = torch.softmax(q @ k.transpose(-2, -1) / d ** 0.5, dim=-1)
        y = w @ v                       # n, h, L, d
        y = y.contiguous().view(n, L, D)
        return self.o(y).view(*lead, L, D)


class AxialBlock(nn.Module):
    """(B, C, H, W) -> (B, C, H, W). Each pixel looks along its row, then along its column.

    Heads are concatenated along the channels: channel block g belongs to head g.
    """

    def __init__(self, C=32, heads=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.row, self.col = Axis(C, heads), Axis(C, heads)

    def forward(self, im):
        x = im.permute(0, 2, 3, 1)                              # B H W C
        x = x + self.row(self.n1(x))                            # along W
        xt = x.transpose(1, 2)                                  # B W H C
        xt = xt + self.col(self.n2(xt))                         # along H
        return xt.permute(0, 3, 2, 1)
