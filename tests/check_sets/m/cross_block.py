import torch
from torch import nn


class CrossBlock(nn.Module):
    def __init__(self, dim, heads=2):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(dim)
        self.q, self.k, self.v, self.o = [nn.Linear(dim, dim, bias=False) for _ in range(4)]

    def forward(self, x, context):
        b, n, c = x.shape
        split = lambda z: z.view(b, z.shape[1], self.heads, c // self.heads).transpose(1, 2)
        q, k, v = split(self.q(self.norm(x))), split(self.k(context)), split(self.v(context).roll(1, 1))
        w = (q @ k.transpose(-1, -2) * (c // self.heads) ** -0.5).softmax(-1)
        return x + self.o((w @ v).transpose(1, 2).reshape(b, n, c))
