import torch
from torch import nn


def turn(x, p):
    """x (B, h, T, d), p (T,) positions; pairs (0,1), (2,3), ... are rotated."""
    d = x.shape[-1]
    th = 10000.0 ** (-torch.arange(0, d, 2, dtype=x.dtype, device=x.device) / d)
    a = p.to(x.dtype)[:, None] * th
    c, s = a.cos(), a.sin()
    u, w = x[..., 0::2], x[..., 1::2]
    return torch.stack([u * c - w * s, u * s + w * c], -1).flatten(-2)


class DictationStream(nn.Module):
    """Text decoder for dictation. Feeding a text at once or piece by piece with the cache
    gives the same result. cache: dict with 'k' (rotated) and 'v', filled here."""

    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        B, T, D = x.shape
        q, k, v = self.qkv(x).view(B, T, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        p = torch.arange(T, device=x.device)
        q, k = turn(q, p), turn(k, p)
        if cache is not None:
            if "k" in cache:
                k = torch.cat([cache["k"], k], dim=2)
                v = torch.cat([cache["v"], v], dim=2)
            cache["k"], cache["v"] = k, v
        S = k.shape[2]
        hide = torch.ones(T, S, dtype=torch.bool, device=x.device).triu(S - T + 1)
        s = (q @ k.transpose(-1, -2)) / (D // self.heads) ** 0.5
        w = s.masked_fill(hide, float("-inf")).softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(B, T, D))
