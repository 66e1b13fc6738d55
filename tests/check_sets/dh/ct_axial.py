import torch
import torch.nn as nn
import torch.nn.functional as F


class _Line(nn.Module):
    """(N, L, C) -> (N, L, C), every position of a line looks at the whole line."""

    def __init__(self, c, heads):
        super().__init__()
        self.heads = heads
        self.to_q = nn.Linear(c, c, bias=False)
        self.to_kv = nn.Linear(c, 2 * c, bias=False)
        self.proj = nn.Linear(c, c)

    def forward(self, x):
        n, l, c = x.shape
        q = self.to_q(x).view(n, l, self.heads, c // self.heads).transpose(1, 2)
        k, v = self.to_kv(x).chunk(2, dim=-1)
        k = k.view(n, l, self.heads, c // self.heads).transpose(1, 2)
        v = v.view(n, l, self.heads, c // self.heads).transpose(1, 2)
        o = F.scaled_dot_product_attention(q, k, v)
        return self.proj(o.transpose(1, 2).reshape(n, l, c))


class AxialSliceBlock(nn.Module):
    """Axial block for CT slices: first along each image row, then along each column.

    x: (B, C, H, W), any H and W
    """

    def __init__(self, channels, heads=4):
        super().__init__()
        self.n1 = nn.GroupNorm(1, channels)
        self.n2 = nn.GroupNorm(1, channels)
        self.along_w = _Line(channels, heads)
        self.along_h = _Line(channels, heads)

    def forward(self, x):
        b, c, h, w = x.shape
        rows = self.n1(x).permute(0, 2, 3, 1).reshape(b * h, w, c)
        x = x + self.along_w(rows).view(b, h, w, c).permute(0, 3, 1, 2)
        cols = self.n2(x).permute(0, 3, 2, 1).reshape(b * w, h, c)
        x = x + self.along_h(cols).view(b, w, h, c).permute(0, 3, 2, 1)
        return x
