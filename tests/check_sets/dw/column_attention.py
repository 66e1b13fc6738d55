"""Column attention for page images (OCR): pixels attend along their own column only.

ColumnAttention(dim, heads)(feat): feat (B, dim, H, W) -> (B, dim, H, W), residual included.

Every column (b, w) is a sequence of H pixels.  Multi-head attention with head size
d = dim // heads, logits q.k / sqrt(d), softmax over the H pixels of the column.  Channel
c of the attention output belongs to head c // d.
"""
import torch
from torch import nn
from math import sqrt


class ColumnAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.dim, self.heads = dim, heads
        self.norm = nn.GroupNorm(1, dim)
        self.qkv = nn.Conv2d(dim, 3 * dim, 1)
        self.mix = nn.Conv2d(dim, dim, 1)

    def fold(self, t):
        b, c, h, w = t.shape
        t = t.view(b, self.heads, c // self.heads, h, w)
        t = t.permute(0, 4, 1, 3, 2)                        # b, w, heads, h, d
        return t.reshape(b * w * self.heads, h, c // self.heads)

    def unfold(self, t, b, w):
        n, h, d = t.shape
        t = t.view(self.heads, b, w, h, d)
        t = t.permute(1, 0, 4, 3, 2)                        # b, heads, d, h, w
        return t.reshape(b, self.heads * d, h, w)

    def forward(self, feat):
        b, c, h, w = feat.shape
        q, k, v = map(self.fold, self.qkv(self.norm(feat)).chunk(3, dim=1))
        score = torch.bmm(q, k.transpose(1, 2)) / sqrt(self.heads)
        weight = torch.softmax(score, dim=2)
        y = torch.bmm(weight, v)
        return feat + self.mix(self.unfold(y, b, w))
