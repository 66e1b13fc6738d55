import math
import torch
import torch.nn as nn


class RowEncoder(nn.Module):
    """FT-Transformer style block for tables: one token per column plus a [CLS] token.

    numbers (B, n_cols) -> (B, n_cols + 1, width)
    """

    def __init__(self, n_cols=7, width=24, heads=3):
        super().__init__()
        self.heads, self.hd = heads, width // heads
        self.scale_w = nn.Parameter(torch.randn(n_cols, width))
        self.shift_w = nn.Parameter(torch.randn(n_cols, width))
        self.cls = nn.Parameter(torch.randn(1, 1, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def attend(self, x):
        B, T, C = x.shape
        q = self.q(x).view(B, T, self.heads, self.hd).transpose(1, 2)
        k = self.k(x).view(B, T, self.heads, self.hd).transpose(1, 2)
        v = self.v(x).view(B, T, self.heads, self.hd).transpose(1, 2)
        w = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(self.hd), dim=-1)
        y = (w @ v).reshape(B, T, C)
        return self.o(y)

    def forward(self, numbers):
        x = numbers[..., None] * self.scale_w + self.shift_w
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1)
        x = x + self.attend(self.norm1(x))
        return x + self.ff(self.norm2(x))
