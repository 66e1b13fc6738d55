"""ViT from scratch on CIFAR, blog post code."""
import torch
import torch.nn as nn


class MSA(nn.Module):
    """Multi-head scaled dot-product self-attention, (B, N, D) -> (B, N, D)."""

    def __init__(self, dim, n_heads):
        super().__init__()
        self.dim, self.n_heads, self.d = dim, n_heads, dim // n_heads
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def heads(self, t):
        return t.reshape(t.shape[0], self.n_heads, -1, self.d)

    def forward(self, x):
        q, k, v = self.heads(self.q(x)), self.heads(self.k(x)), self.heads(self.v(x))
        att = torch.softmax(q @ k.transpose(-2, -1), dim=-1)
        return self.o((att @ v).transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.msa = MSA(dim, n_heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.msa(self.n1(x))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, img=16, patch=4, chans=3, dim=48, depth=2, n_heads=4, classes=10):
        super().__init__()
        self.patch = nn.Conv2d(chans, dim, patch, patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim) * 0.02)
        self.pos = nn.Parameter(torch.randn(1, (img // patch) ** 2 + 1, dim) * 0.02)
        self.layers = nn.ModuleList([Layer(dim, n_heads) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, img):
        """img (B, chans, H, W) -> (B, classes)"""
        x = self.patch(img).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, 0])
