"""Axial attention for CT slices (liver lesions).

Each pixel first attends to the pixels of its column, then to the pixels of its row;
heads of width C / heads, scores / sqrt(C / heads), residual after each.  A learned bias
per head and relative offset (key position - query position) is added to the scores.

AxialBlock(C, heads, size)(img): img [B, C, H, W] with H, W <= size -> [B, C, H, W]
"""
import torch
from torch import nn


class Axial1d(nn.Module):
    def __init__(self, C, heads, size):
        super().__init__()
        self.heads, self.size = heads, size
        self.norm = nn.GroupNorm(1, C)
        self.qkv = nn.Conv2d(C, 3 * C, 1, bias=False)
        self.out = nn.Conv2d(C, C, 1)
        self.rel = nn.Parameter(torch.randn(heads, 2 * size - 1) * 0.1)

    def bias(self, n):
        pos = torch.arange(n, device=self.rel.device)
        return self.rel[:, pos[None, :] - pos[:, None] + self.size - 1]

    def forward(self, img):
        """attends along H (dim 2)"""
        B, C, H, W = img.shape
        qkv = self.qkv(self.norm(img)).reshape(B, 3, self.heads, C // self.heads, H, W)
        q, k, v = qkv.unbind(1)                                     # [B, heads, c, H, W]
        s = torch.einsum("bhciw,bhcjw->bhwij", q, k) * (C // self.heads) ** -0.5
        s = s + self.bias(H)[None, :, None]
        p = s.softmax(dim=-1)
        y = torch.einsum("bhwij,bhcjw->bhciw", p, v).reshape(B, C, H, W)
        return img + self.out(y)


class AxialBlock(nn.Module):
    def __init__(self, C, heads, size):
        super().__init__()
        self.col = Axial1d(C, heads, size)
        self.row = Axial1d(C, heads, size)

    def forward(self, img):
        img = self.col(img)
        return self.row(img.transpose(2, 3)).transpose(2, 3)


def window_hu(x, centre=60.0, width=200.0):
    """Hounsfield units -> [0, 1]"""
    return ((x - centre) / width + 0.5).clamp(0, 1)
