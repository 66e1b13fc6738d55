"""Divided space-time attention for action recognition on surveillance clips."""
import torch
import torch.nn as nn


class FoldedAttention(nn.Module):
    """Heads are folded into the batch before the two matrix products. x: [B, N, C]."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.scale = (dim // heads) ** -0.5
        self.q, self.k, self.v = nn.Linear(dim, dim), nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def fold(self, t):
        return torch.cat(t.chunk(self.heads, dim=-1), dim=0)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.fold(self.q(x)), self.fold(self.k(x)), self.fold(self.v(x))
        w = torch.bmm(q * self.scale, k.transpose(1, 2)).softmax(dim=-1)
        y = torch.bmm(w, v)
        y = y.view(b, self.heads, n, c // self.heads).transpose(1, 2).reshape(b, n, c)
        return self.o(y)


class SpaceTimeBlock(nn.Module):
    """[B, T, P, C]: first over the frames at each patch, then over the patches of each frame"""

    def __init__(self, dim, heads):
        super().__init__()
        self.nt, self.ns, self.nf = (nn.LayerNorm(dim) for _ in range(3))
        self.time = FoldedAttention(dim, heads)
        self.space = FoldedAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, t, p, c = x.shape
        y = self.nt(x).transpose(1, 2).reshape(b * p, t, c)
        x = x + self.time(y).view(b, p, t, c).transpose(1, 2)
        y = self.ns(x).reshape(b * t, p, c)
        x = x + self.space(y).view(b, t, p, c)
        return x + self.ff(self.nf(x))


class ClipClassifier(nn.Module):
    def __init__(self, patch=16, dim=64, heads=4, depth=2, classes=8, frames=8, patches=16):
        super().__init__()
        self.stem = nn.Conv3d(3, dim, (1, patch, patch), stride=(1, patch, patch))
        self.pos_t = nn.Parameter(torch.zeros(1, frames, 1, dim))
        self.pos_s = nn.Parameter(torch.zeros(1, 1, patches, dim))
        self.blocks = nn.ModuleList(SpaceTimeBlock(dim, heads) for _ in range(depth))
        self.head = nn.Linear(dim, classes)

    def forward(self, clip):
        """clip [B, 3, T, H, W]"""
        x = self.stem(clip).flatten(3).permute(0, 2, 3, 1)
        x = x + self.pos_t[:, : x.shape[1]] + self.pos_s[:, :, : x.shape[2]]
        for b in self.blocks:
            x = b(x)
        return self.head(x.mean((1, 2)))
