"""Axial attention for CT slices: first along every row, then along every column.

Input and output are channel-first feature maps [B, C, H, W].  A pixel sees the
pixels of its own row in the first half and those of its own column in the second.
"""
import math
import torch
import torch.nn as nn


class LineAttention(nn.Module):
    """Plain multi-head self attention over [N, L, C], with a learned positional
    term on the keys (one vector per place in the line, lines up to max_len)."""

    def __init__(self, channels, heads, max_len):
        super().__init__()
        self.heads = heads
        self.dh = channels // heads
        self.to_q = nn.Linear(channels, channels, bias=False)
        self.to_kv = nn.Linear(channels, 2 * channels, bias=False)
        self.key_pos = nn.Parameter(0.02 * torch.randn(max_len, channels))
        self.out = nn.Linear(channels, channels)

    def forward(self, x):
        n, l, c = x.shape
        q = self.to_q(x)
        k, v = self.to_kv(x).split(c, dim=2)
        k = k + self.key_pos[:l]
        q = q.reshape(n, l, self.heads, self.dh)
        k = k.reshape(n, l, self.heads, self.dh)
        v = v.reshape(n, l, self.heads, self.dh)
        att = torch.einsum("nihd,njhd->nhij", q, k) / math.sqrt(self.dh)
        att = torch.softmax(att, dim=3)
        y = torch.einsum("nhij,njhd->nihd", att, v)
        return self.out(y.reshape(n, l, c))


class AxialBlock(nn.Module):
    def __init__(self, channels: int = 32, heads: int = 4, max_side: int = 64):
        super().__init__()
        if channels % heads:
            raise ValueError("channels % heads != 0")
        self.norm_row = nn.LayerNorm(channels)
        self.norm_col = nn.LayerNorm(channels)
        self.row = LineAttention(channels, heads, max_side)
        self.col = LineAttention(channels, heads, max_side)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        b, c, h, w = image.shape
        x = image.permute(0, 2, 3, 1)                         # [B, H, W, C]
        rows = x.reshape(b * h, w, c)
        x = x + self.row(self.norm_row(rows)).reshape(b, h, w, c)
        cols = x.transpose(1, 2).reshape(b * w, h, c)         # [B*W, H, C]
        y = self.col(self.norm_col(cols)).reshape(b, w, h, c)
        x = x + y.transpose(1, 2)
        return x.permute(0, 3, 1, 2).contiguous()
