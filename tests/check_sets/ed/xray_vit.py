"""Small ViT for chest X-rays (14 findings, multi-label).

    scan     (B, 1, S, S) grey values, S = size given to the constructor
    returns  (B, 14) logits

Patches -> tokens, a class token in front, learned positions, pre-norm blocks.  In a
block the D features of a token are cut into `heads` consecutive pieces of d = D/heads
features; head h compares and mixes the h-th pieces of all tokens (softmax over the
tokens, 1/sqrt(d)), and the heads' results are put back side by side.
"""
import torch
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, dim, heads, p=0.0):
        super().__init__()
        self.heads = heads
        self.d = dim // heads
        self.query = nn.Linear(dim, dim)
        self.key = nn.Linear(dim, dim)
        self.value = nn.Linear(dim, dim)
        self.proj = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)

    def forward(self, x):
        B, N, D = x.shape
        q = self.query(x).reshape(B, self.heads, N, self.d)
        k = self.key(x).reshape(B, self.heads, N, self.d)
        v = self.value(x).reshape(B, self.heads, N, self.d)
        att = (q @ k.transpose(-1, -2)) * self.d ** -0.5
        att = self.drop(att.softmax(dim=-1))
        y = (att @ v).transpose(1, 2).reshape(B, N, D)
        return self.proj(y)


class Block(nn.Module):
    def __init__(self, dim, heads, p):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = SelfAttention(dim, heads, p)
        self.mlp = nn.Sequential(
            nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim), nn.Dropout(p)
        )

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))


class XrayViT(nn.Module):
    def __init__(self, size=64, patch=16, dim=96, heads=6, depth=2, findings=14, p=0.1):
        super().__init__()
        self.patch = nn.Conv2d(1, dim, patch, stride=patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.pos = nn.Parameter(torch.randn(1, (size // patch) ** 2 + 1, dim) * 0.02)
        self.blocks = nn.Sequential(*[Block(dim, heads, p) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, findings)

    def forward(self, scan):
        x = self.patch(scan).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], dim=1) + self.pos
        return self.head(self.norm(self.blocks(x))[:, 0])
