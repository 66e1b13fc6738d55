import torch
from torch import nn


def rope(x):
    n, d = x.shape[-2:]
    ang = torch.arange(n, dtype=x.dtype)[:, None] * 10000 ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * ang.cos() - b * ang.sin(), a * ang.sin() + b * ang.cos()), dim=-1).flatten(-2)


class RopeAttention(nn.Module):
    """Causal self-attention with rotary position embedding on queries and keys (Su et al. 2021)."""

    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        q, k, v = rope(q), rope(k), rope(v)
        s = q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5
        s = s.masked_fill(torch.ones(n, n, dtype=torch.bool).triu(1), float("-inf"))
        return self.out((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, c))
