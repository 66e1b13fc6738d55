import torch
from torch import nn


class RMSNorm(nn.Module):
    def __init__(self, dim, eps=1e-6):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * (1.0 + self.weight)


class Gemma3Attention(nn.Module):
    """Causal attention with RMS-normed queries and keys, rotary positions and, in local layers, a window of `sliding_window`
    tokens that ends with the token itself.  The scale is query_pre_attn_scalar ** -0.5."""

    def __init__(self, hidden=16, heads=4, kv_heads=1, head_dim=8, query_pre_attn_scalar=16, sliding_window=3):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.scaling = query_pre_attn_scalar ** -0.5
        self.sliding_window = sliding_window
        self.q_proj = nn.Linear(hidden, heads * head_dim, bias=False)
        self.k_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.v_proj = nn.Linear(hidden, kv_heads * head_dim, bias=False)
        self.o_proj = nn.Linear(heads * head_dim, hidden, bias=False)
        self.q_norm, self.k_norm = RMSNorm(head_dim), RMSNorm(head_dim)

    def rotate(self, x):
        half = self.head_dim // 2
        inv = 10000.0 ** (-torch.arange(half, dtype=x.dtype) / half)
        ang = torch.arange(x.shape[-2], dtype=x.dtype)[:, None] * inv
        lo, hi = x[..., :half], x[..., half:]
        return torch.cat([lo * ang.cos() - hi * ang.sin(), hi * ang.cos() + lo * ang.sin()], dim=-1)

    def forward(self, x):
        b, n, _ = x.shape
        q = self.rotate(self.q_norm(self.q_proj(x).view(b, n, self.heads, -1)).transpose(1, 2))
        k = self.rotate(self.k_norm(self.k_proj(x).view(b, n, self.kv_heads, -1)).transpose(1, 2))
        v = self.v_proj(x).view(b, n, self.kv_heads, -1).transpose(1, 2)
        i = torch.arange(n)
        gap = i[:, None] - i[None, :]
        hidden = (gap < 0) | (gap >= self.sliding_window)
        s = (q * self.scaling) @ k.transpose(-2, -1)
        s = s.masked_fill(hidden, torch.finfo(s.dtype).min)
        return self.o_proj((s.softmax(-1) @ v).transpose(1, 2).reshape(b, n, -1))
