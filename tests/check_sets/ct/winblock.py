"""Window attention with learned relative bias, for road-crack segmentation."""
import torch
from torch import nn


def relative_index(m):
    """(m*m, m*m) table: entry [i, j] numbers the offset from j to i."""
    ys, xs = torch.meshgrid(torch.arange(m), torch.arange(m), indexing="ij")
    p = torch.stack([ys.reshape(-1), xs.reshape(-1)], 1)
    d = p[:, None] - p[None, :] + (m - 1)
    return d[..., 0] * (2 * m - 1) + d[..., 1]


class WindowAttention(nn.Module):
    """
    x: (B, H, W, C) with H and W multiples of `win`; same shape comes back.
    Every pixel attends to the win x win pixels of its own window, itself
    included. No shift, no mask.
    """

    def __init__(self, dim=24, win=4, heads=3):
        super().__init__()
        self.win, self.heads = win, heads
        self.scale = (dim // heads) ** -0.5
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.bias = nn.Parameter(torch.zeros((2 * win - 1) ** 2, heads))
        nn.init.trunc_normal_(self.bias, std=0.2)
        self.register_buffer("idx", relative_index(win), persistent=False)

    def cut(self, x):
        B, H, W, C = x.shape
        m = self.win
        x = x.reshape(B, H // m, m, W // m, m, C).transpose(2, 3)
        return x.reshape(-1, m * m, C)

    def glue(self, t, B, H, W):
        m = self.win
        t = t.reshape(B, H // m, W // m, m, m, -1).transpose(2, 3)
        return t.reshape(B, H, W, -1)

    def forward(self, x):
        B, H, W, C = x.shape
        t = self.cut(self.norm(x))
        n, l, _ = t.shape
        q, k, v = self.qkv(t).reshape(n, l, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        att = (q * self.scale) @ k.transpose(-2, -1)
        att = att + self.bias[self.idx].permute(2, 0, 1)
        att = att.softmax(dim=-1)
        t = (att @ v).transpose(1, 2).reshape(n, l, C)
        return x + self.glue(self.out(t), B, H, W)
