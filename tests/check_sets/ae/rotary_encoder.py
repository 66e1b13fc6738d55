import torch
import torch.nn as nn
import torch.nn.functional as F


class Rotary(nn.Module):
    def __init__(self, dim, base=10_000.0):
        super().__init__()
        inv = base ** (-torch.arange(0, dim, 2).float() / dim)
        self.register_buffer("inv", inv, persistent=False)

    def forward(self, n):
        pos = torch.arange(n, device=self.inv.device, dtype=self.inv.dtype)
        ang = torch.outer(pos, self.inv).repeat_interleave(2, dim=-1)
        return ang.cos(), ang.sin()


def rotate(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-b, a), dim=-1) * sin


class RotaryAttention(nn.Module):
    """Bidirectional self-attention with rotary position embedding (RoFormer).

    x: (B, N, dim); the attention depends on positions only through their difference.
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.rot = Rotary(dim // heads)
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        cos, sin = self.rot(n)
        q = rotate(q, cos, sin)
        k = rotate(k, cos, sin)
        o = F.scaled_dot_product_attention(q, k, v)
        return self.out(o.permute(0, 2, 1, 3).flatten(2))
