"""Vision transformer for the flowers folder (102 classes), trained from scratch on 64x64 crops.

Images come in as float tensors (B, 3, 64, 64); the model gives class logits (B, n_classes).
Pre-norm blocks, scaled dot-product self-attention (1/sqrt of the head size), class token.
"""
import torch
from torch import nn


class MHSA(nn.Module):
    """Multi-head self-attention, x (B, N, dim) -> (B, N, dim). Every token reads every token."""

    def __init__(self, dim, heads):
        super().__init__()
        assert dim % heads == 0
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, c = x.shape
        d = c // self.heads
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, d).permute(2, 0, 3, 1, 4)
        # split the temperature over both sides, keeps the product small in fp16 runs
        q, k = q * d ** -0.25, k * d ** -0.25
        w = (q @ k.mT).softmax(-1)
        return self.out((w @ v).permute(0, 2, 1, 3).flatten(2))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp=2):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = MHSA(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp * dim), nn.GELU(), nn.Linear(mlp * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class FlowerViT(nn.Module):
    def __init__(self, n_classes=102, dim=96, depth=2, heads=4, patch=16, size=64):
        super().__init__()
        self.embed = nn.Conv2d(3, dim, patch, patch)
        n = (size // patch) ** 2
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim) * 0.02)
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, n_classes)

    def forward(self, img):
        t = self.embed(img).flatten(2).transpose(1, 2)
        t = torch.cat([self.cls.expand(len(t), -1, -1), t], 1) + self.pos
        for blk in self.blocks:
            t = blk(t)
        return self.head(self.norm(t[:, 0]))
