"""Mistral-like attention for loading the released checkpoints."""
import torch
from torch import nn


def apply_rope(x, theta=10000.0):
    # x: (B, H, L, D), halves layout of the checkpoints
    L, D = x.shape[-2:]
    inv = theta ** (-torch.arange(0, D, 2, device=x.device).float() / D)
    ang = torch.outer(torch.arange(L, device=x.device).float(), inv)
    cos, sin = ang.cos().to(x.dtype), ang.sin().to(x.dtype)
    a, b = x[..., : D // 2], x[..., D // 2:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class GroupedQueryAttention(nn.Module):
    """Causal grouped-query attention.

    The query heads are divided in n_kv_heads groups of consecutive heads:
    query heads g * G .. (g + 1) * G - 1 (G = n_heads / n_kv_heads) all use
    key/value head g.

    x: (B, L, dim) -> (B, L, dim)
    """

    def __init__(self, dim=64, n_heads=8, n_kv_heads=2):
        super().__init__()
        self.n_heads = n_heads
        self.n_kv_heads = n_kv_heads
        self.group = n_heads // n_kv_heads
        self.head_dim = dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(n_heads * self.head_dim, dim, bias=False)

    def forward(self, x):
        B, L, _ = x.shape
        q = self.wq(x).view(B, L, self.n_heads, self.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, L, self.n_kv_heads, self.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, L, self.n_kv_heads, self.head_dim).transpose(1, 2)
        q, k = apply_rope(q), apply_rope(k)

        # bring keys and values to the number of query heads
        k = k.repeat(1, self.group, 1, 1)
        v = v.repeat(1, self.group, 1, 1)

        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, L, -1))
