import torch
import torch.nn as nn


class QuickBlock(nn.Module):
    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.ln1, self.ln2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.wq, self.wk, self.wv, self.wo = [nn.Linear(dim, dim, bias=False) for _ in range(4)]
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def attention(self, x):
        B, N, C = x.shape
        q, k, v = (w(x).reshape(B, N, self.heads, C // self.heads).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        dots = q @ k.transpose(-1, -2) * (C // self.heads) ** -0.5
        return self.wo((dots @ v).transpose(1, 2).reshape(B, N, C))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.ff(self.ln2(x))
