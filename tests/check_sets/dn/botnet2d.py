"""Bottleneck block with global attention over a feature map (BoTNet).

MHSA2d(dim, size, heads)
    forward(x)   x (B, dim, H, W) with (H, W) = size -> (B, dim, H, W)
Every pixel reads all pixels:
    score(i, j) = (q_i.k_j + q_i.r_j) / sqrt(d),  r_j = rel_h[row j] + rel_w[col j]
    weights of pixel i: softmax over the pixels j that it reads
    out_i       = sum_j weight(i, j) v_j
BoTBlock is the residual bottleneck 1x1 - MHSA - 1x1 with batch norm; it halves
the resolution afterwards if stride=2.
"""
import torch
from torch import nn


class MHSA2d(nn.Module):
    def __init__(self, dim, size, heads=4):
        super().__init__()
        H, W = size
        self.heads = heads
        self.d = dim // heads
        self.query = nn.Conv2d(dim, dim, kernel_size=1)
        self.key = nn.Conv2d(dim, dim, kernel_size=1)
        self.value = nn.Conv2d(dim, dim, kernel_size=1)
        self.rel_h = nn.Parameter(torch.randn(1, heads, self.d, H, 1) * self.d ** -0.5)
        self.rel_w = nn.Parameter(torch.randn(1, heads, self.d, 1, W) * self.d ** -0.5)

    def forward(self, x):
        B, C, H, W = x.shape
        q = self.query(x).view(B, self.heads, self.d, H * W)
        k = self.key(x).view(B, self.heads, self.d, H * W)
        v = self.value(x).view(B, self.heads, self.d, H * W)

        content = torch.einsum("bhdi,bhdj->bhij", q, k)
        r = (self.rel_h + self.rel_w).flatten(3)                 # (1, heads, d, H*W)
        place = torch.einsum("bhdi,xhdj->bhij", q, r)

        energy = (content + place) * self.d ** -0.5
        weights = torch.softmax(energy, dim=-2)
        out = torch.einsum("bhij,bhdj->bhdi", weights, v)
        return out.reshape(B, C, H, W)


class BoTBlock(nn.Module):
    expansion = 4

    def __init__(self, channels, size, heads=4, stride=1):
        super().__init__()
        mid = channels // self.expansion
        self.reduce = nn.Sequential(nn.Conv2d(channels, mid, 1, bias=False),
                                    nn.BatchNorm2d(mid), nn.ReLU())
        self.mhsa = MHSA2d(mid, size, heads)
        self.pool = nn.AvgPool2d(2, 2) if stride == 2 else nn.Identity()
        self.post = nn.Sequential(nn.BatchNorm2d(mid), nn.ReLU())
        self.restore = nn.Sequential(nn.Conv2d(mid, channels, 1, bias=False),
                                     nn.BatchNorm2d(channels))
        self.skip = nn.AvgPool2d(2, 2) if stride == 2 else nn.Identity()

    def forward(self, x):
        y = self.post(self.pool(self.mhsa(self.reduce(x))))
        return torch.relu(self.restore(y) + self.skip(x))
