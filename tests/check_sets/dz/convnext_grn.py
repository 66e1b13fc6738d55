"""ConvNeXt-V2-style residual block, channels last inside.

    x  (B, C, H, W) -> (B, C, H, W)

depthwise 7x7 conv -> LayerNorm -> 1x1 up -> GELU -> Global Response Normalisation -> 1x1 down,
plus the input.  GRN divides each channel's L2 norm over the image by the mean norm of the
channels and uses the ratio as a gate.
"""
import torch
from torch import nn


class GRN(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1, 1, 1, dim))
        self.beta = nn.Parameter(torch.zeros(1, 1, 1, dim))
        self.eps = eps

    def forward(self, x):                              # (B, H, W, C)
        gx = torch.linalg.vector_norm(x, dim=(1, 2), keepdim=True)
        nx = gx / (gx.mean(dim=-1, keepdim=True) + self.eps)
        return self.gamma * (x * nx) + self.beta + x


class Block(nn.Module):
    def __init__(self, dim, mult=4):
        super().__init__()
        self.dw = nn.Conv2d(dim, dim, 7, padding=3, groups=dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.up = nn.Linear(dim, mult * dim)
        self.grn = GRN(mult * dim)
        self.down = nn.Linear(mult * dim, dim)

    def forward(self, x):
        y = self.dw(x).permute(0, 2, 3, 1)
        y = self.down(self.grn(nn.functional.gelu(self.up(self.norm(y)))))
        return x + y.permute(0, 3, 1, 2)
