"""ViT in one file (CIFAR sized), my weekend gist.

Standard pre-norm ViT: patches -> tokens, CLS token, learned positions, blocks, linear head.
Attention is the textbook one, softmax(q k^T / sqrt(head dim)) v in every head.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SA(nn.Module):
    def __init__(self, dim, nh):
        super().__init__()
        self.nh = nh
        self.sc = dim ** -0.5
        self.in_ = nn.Linear(dim, dim * 3, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.in_(x).reshape(b, n, 3, self.nh, c // self.nh).permute(2, 0, 3, 1, 4)
        w = torch.einsum("bhid,bhjd->bhij", q, k) * self.sc
        w = w.softmax(-1)
        y = torch.einsum("bhij,bhjd->bihd", w, v)
        return self.out(y.reshape(b, n, c))


class Blk(nn.Module):
    def __init__(self, dim, nh):
        super().__init__()
        self.a, self.m = SA(dim, nh), nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x):
        x = x + self.a(self.n1(x))
        return x + self.m(self.n2(x))


class ViT(nn.Module):
    def __init__(self, side=32, patch=8, dim=48, nh=4, depth=2, ncls=10):
        super().__init__()
        self.patch = nn.Conv2d(3, dim, patch, patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, 1 + (side // patch) ** 2, dim) * 0.02)
        self.blocks = nn.Sequential(*[Blk(dim, nh) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, ncls)

    def forward(self, img):
        """img (B, 3, side, side) -> logits (B, ncls)"""
        x = self.patch(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        x = self.norm(self.blocks(x))
        return self.head(x[:, 0])
