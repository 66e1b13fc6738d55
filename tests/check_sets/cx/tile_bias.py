import torch
import torch.nn as nn


class TileAttention(nn.Module):
    """Attention in a tile of `side` x `side` patches with a learned relative position bias.

    x [n_tiles, side*side, C], patches in row-major order. There is one learned number per head and
    offset (dy, dx), dy and dx in -(side-1) .. side-1, that is (2*side-1)^2 in all; patch pairs with
    the same offset share it, and pairs with different offsets do not.
    """

    def __init__(self, C, heads, side):
        super().__init__()
        self.heads, self.side = heads, side
        self.table = nn.Parameter(torch.randn((2 * side - 1) ** 2, heads) * 0.5)
        self.register_buffer("index", self.offsets(side), persistent=False)
        self.qkv = nn.Linear(C, 3 * C)
        self.proj = nn.Linear(C, C)

    @staticmethod
    def offsets(side):
        y = torch.arange(side).repeat_interleave(side)
        x = torch.arange(side).repeat(side)
        dy = y[:, None] - y[None, :] + side - 1
        dx = x[:, None] - x[None, :] + side - 1
        return dy * side + dx

    def forward(self, x):
        n, t, C = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        s = (q * (C // self.heads) ** -0.5) @ k.transpose(-2, -1)
        s = s + self.table[self.index].permute(2, 0, 1)
        p = torch.softmax(s, dim=-1)
        return self.proj((p @ v).transpose(1, 2).reshape(n, t, C))
