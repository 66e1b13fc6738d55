"""ViT on CIFAR-10 from scratch (my notes while reading "An Image is Worth 16x16 Words").

images: (B, 3, 32, 32).  Patches of 4x4 -> 64 tokens + CLS.
Multi-head attention as in Vaswani et al.: per head softmax(q k^T / sqrt(d_head)) v, the heads of a
token are concatenated and projected.  Pre-norm encoder; logits from the CLS token.
Returns (B, classes).
"""
import torch
import torch.nn as nn


class MHA(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = dim ** -0.5
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.size()
        q = self.q(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
        k = self.k(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
        v = self.v(x).view(b, n, self.heads, d // self.heads).transpose(1, 2)
        att = torch.softmax(torch.einsum("bhif,bhjf->bhij", q, k) * self.scale, dim=-1)
        out = torch.einsum("bhij,bhjf->bhif", att, v)
        return self.o(out.flatten(1).view(b, n, d))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp):
        super().__init__()
        self.la1, self.la2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.msa = MHA(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, mlp), nn.GELU(), nn.Linear(mlp, dim), nn.GELU())

    def forward(self, x):
        x = self.msa(self.la1(x)) + x
        return self.mlp(self.la2(x)) + x


class ViT(nn.Module):
    def __init__(self, classes=10, dim=96, depth=2, heads=4, mlp=192, patch=4, img=32):
        super().__init__()
        n = (img // patch) ** 2
        self.to_tokens = nn.Conv2d(3, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.randn(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, n + 1, dim))
        self.enc = nn.Sequential(*[Block(dim, heads, mlp) for _ in range(depth)])
        self.fc = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, images):
        x = self.to_tokens(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        return self.fc(self.enc(x)[:, 0])
