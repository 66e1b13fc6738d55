"""Axial block for feature maps: every pixel looks along its column, then along its row.

Two passes, each with own weights and a residual; heads are contiguous slices of the channels.
Scores are q.k / sqrt(d) with d = channels per head (split as d**-0.25 on both sides, which keeps
half precision happy).
"""
import torch
import torch.nn as nn


class Along(nn.Module):
    """Self-attention along the second to last axis of (..., L, C)."""

    def __init__(self, c, heads):
        super().__init__()
        self.h = heads
        self.q = nn.Linear(c, c, bias=False)
        self.kv = nn.Linear(c, 2 * c, bias=False)
        self.o = nn.Linear(c, c)

    def forward(self, x):
        *rest, L, C = x.shape
        d = C // self.h
        q = self.q(x).view(*rest, L, self.h, d).transpose(-3, -2)
        k, v = (t.view(*rest, L, self.h, d).transpose(-3, -2) for t in self.kv(x).split(C, -1))
        w = (q * d ** -0.25) @ (k * d ** -0.25).mT
        w = w.float().softmax(-1).to(v.dtype)
        return self.o((w @ v).transpose(-3, -2).flatten(-2))


class Axial(nn.Module):
    def __init__(self, c, heads=4):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(c), nn.LayerNorm(c)
        self.vert, self.hori = Along(c, heads), Along(c, heads)

    def forward(self, img):
        """img (B, C, H, W) -> (B, C, H, W)"""
        x = img.permute(0, 3, 2, 1)                    # (B, W, H, C): the column is the sequence
        x = x + self.vert(self.norm1(x))
        x = x.transpose(1, 2)                          # (B, H, W, C): the row is the sequence
        x = x + self.hori(self.norm2(x))
        return x.permute(0, 3, 1, 2)
