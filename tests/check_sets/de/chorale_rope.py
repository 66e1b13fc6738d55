import torch
import torch.nn as nn


def swap(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class ChoraleLayer(nn.Module):
    """Decoder layer for Bach chorales with rotary positions. x: (B, T, dim)."""

    def __init__(self, dim=64, heads=4, base=1000.0):
        super().__init__()
        self.h, self.hd = heads, dim // heads
        inv = base ** (-torch.arange(0, self.hd, 2).float() / self.hd)
        self.register_buffer("inv", inv, persistent=False)
        self.ln = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)
        self.ln2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def angles(self, T):
        f = torch.arange(T, device=self.inv.device).float()[:, None] * self.inv[None]
        f = f.repeat_interleave(2, dim=-1)
        return f.cos(), f.sin()

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = self.qkv(self.ln(x)).view(B, T, 3, self.h, self.hd).permute(2, 0, 3, 1, 4)
        c, s = self.angles(T)
        q = q * c + swap(q) * s
        k = k * c + swap(k) * s
        a = q @ k.transpose(-1, -2) / self.hd ** 0.5
        a = a.masked_fill(torch.ones(T, T, device=x.device).triu(1).bool(), float("-inf"))
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(B, T, D)
        x = x + self.out(y)
        return x + self.mlp(self.ln2(x))
