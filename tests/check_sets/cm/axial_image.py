"""Axial attention for satellite tiles: rows, then columns."""
import torch
import torch.nn as nn


class AxisAttention(nn.Module):
    """Self-attention along the last-but-one axis of (..., L, C); all other axes are batch."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        *lead, L, C = x.shape
        d = C // self.heads
        qkv = self.qkv(self.norm(x)).reshape(*lead, L, 3, self.heads, d)
        q, k, v = qkv.movedim(-3, 0).transpose(-3, -2)  # each (..., heads, L, d)
        a = torch.matmul(q * d ** -0.5, k.transpose(-1, -2)).softmax(-1)
        y = torch.matmul(a, v).transpose(-3, -2).reshape(*lead, L, C)
        return x + self.out(y)


class AxialBlock(nn.Module):
    """(B, C, H, W) -> (B, C, H, W). First every pixel looks along its row, then along its column."""

    def __init__(self, dim=16, heads=4, max_side=16):
        super().__init__()
        self.pos_h = nn.Parameter(torch.randn(max_side, 1, dim) * 0.02)
        self.pos_w = nn.Parameter(torch.randn(1, max_side, dim) * 0.02)
        self.row = AxisAttention(dim, heads)
        self.col = AxisAttention(dim, heads)

    def forward(self, img):
        x = img.permute(0, 2, 3, 1)
        H, W = x.shape[1:3]
        x = x + self.pos_h[:H] + self.pos_w[:, :W]
        x = self.row(x)  # along W
        x = self.col(x.transpose(1, 2)).transpose(1, 2)  # along H
        return x.permute(0, 3, 1, 2).contiguous()
