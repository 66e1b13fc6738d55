"""Pooling of cryo-EM particle embeddings into a fixed number of class averages.

A micrograph yields a variable number of particles, so everything here is
permutation invariant (Lee et al. 2019, "Set Transformer").
`padding` is True where a slot of the batch holds no particle.
"""
from __future__ import annotations

import torch
from torch import nn


class MAB(nn.Module):
    """Multihead attention block: X looks at Y.

    x: (B, n, d)   y: (B, m, d)   padding: (B, m) bool, True = empty slot
    """

    def __init__(self, d: int, heads: int = 4, ln: bool = True):
        super().__init__()
        if d % heads:
            raise ValueError("d must be divisible by heads")
        self.heads = heads
        self.fc_q = nn.Linear(d, d)
        self.fc_k = nn.Linear(d, d)
        self.fc_v = nn.Linear(d, d)
        self.fc_o = nn.Linear(d, d)
        self.ln0 = nn.LayerNorm(d) if ln else nn.Identity()
        self.ln1 = nn.LayerNorm(d) if ln else nn.Identity()

    def forward(self, x, y, padding=None):
        q, k, v = self.fc_q(x), self.fc_k(y), self.fc_v(y)
        # heads go into the batch, head-major: (H*B, n, d/H)
        q_ = torch.cat(q.chunk(self.heads, dim=-1), dim=0)
        k_ = torch.cat(k.chunk(self.heads, dim=-1), dim=0)
        v_ = torch.cat(v.chunk(self.heads, dim=-1), dim=0)

        energy = q_ @ k_.mT / q_.shape[-1] ** 0.5
        if padding is not None:
            pad = padding.repeat(self.heads, 1)[:, None, :]
            energy = energy.masked_fill(pad, torch.finfo(energy.dtype).min)
        a = energy.softmax(dim=-1)
        o = torch.cat((q_ + a @ v_).chunk(self.heads, dim=0), dim=-1)
        o = self.ln0(o)
        return self.ln1(o + torch.relu(self.fc_o(o)))


class ISAB(nn.Module):
    """Induced set attention: m inducing points in place of n x n."""

    def __init__(self, d, heads, m):
        super().__init__()
        self.points = nn.Parameter(torch.empty(1, m, d))
        nn.init.xavier_uniform_(self.points)
        self.up = MAB(d, heads)
        self.down = MAB(d, heads)

    def forward(self, x, padding=None):
        h = self.up(self.points.expand(len(x), -1, -1), x, padding)
        return self.down(x, h)


class ParticlePool(nn.Module):
    def __init__(self, d=64, heads=4, m=16, classes=8):
        super().__init__()
        self.enc = ISAB(d, heads, m)
        self.seeds = nn.Parameter(torch.randn(1, classes, d) * 0.02)
        self.pool = MAB(d, heads)

    def forward(self, particles, padding=None):
        z = self.enc(particles, padding)
        return self.pool(self.seeds.expand(len(z), -1, -1), z, padding)


if __name__ == "__main__":
    net = ParticlePool(32, 4, 5, 3)
    print(net(torch.randn(2, 11, 32)).shape)
