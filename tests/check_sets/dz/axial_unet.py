"""Axial attention for a U-Net bottleneck: first along columns, then along rows, with residuals.

    x    (N, C, H, W) feature map
    out  (N, C, H, W)

AxisAttention attends inside every line of length L along one axis (lines never mix), with
`heads` heads of size d = C / heads and logits q.k / sqrt(d).  Channel c belongs to head c // d
both in the projections and in the result.
"""
import torch
import torch.nn as nn


class AxisAttention(nn.Module):
    def __init__(self, C, heads):
        super().__init__()
        self.heads, self.d = heads, C // heads
        self.to_q = nn.Linear(C, C, bias=False)
        self.to_kv = nn.Linear(C, 2 * C, bias=False)
        self.to_out = nn.Linear(C, C)

    def forward(self, lines):
        """lines (M, L, C) -> (M, L, C)"""
        M, L, C = lines.shape
        h, d = self.heads, self.d
        q = self.to_q(lines)
        k, v = self.to_kv(lines).chunk(2, dim=-1)
        merge_heads = lambda t: t.reshape(M, L, h, d).transpose(1, 2).reshape(M * h, L, d)
        q, k, v = map(merge_heads, (q, k, v))
        dots = torch.einsum("bie,bje->bij", q, k)
        att = dots.softmax(dim=-1)
        out = torch.bmm(att, v)
        out = out.reshape(h, M, L, d).permute(1, 2, 0, 3).reshape(M, L, C)
        return self.to_out(out)


class AxialBottleneck(nn.Module):
    def __init__(self, C=32, heads=4):
        super().__init__()
        self.norm_h, self.norm_w = nn.GroupNorm(1, C), nn.GroupNorm(1, C)
        self.along_h, self.along_w = AxisAttention(C, heads), AxisAttention(C, heads)

    def forward(self, x):
        N, C, H, W = x.shape
        cols = self.norm_h(x).permute(0, 3, 2, 1).reshape(N * W, H, C)
        x = x + self.along_h(cols).reshape(N, W, H, C).permute(0, 3, 2, 1)
        rows = self.norm_w(x).permute(0, 2, 3, 1).reshape(N * H, W, C)
        return x + self.along_w(rows).reshape(N, H, W, C).permute(0, 3, 1, 2)
