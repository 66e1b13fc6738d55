import torch
from torch import nn


class RotaryEmbedding(nn.Module):
    """The GPT-NeoX layout: feature i is paired with feature i + d/2, both turned by position * base^(-2i/d)."""

    def __init__(self, dim, base=10000):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).double() / dim))
        self.register_buffer("inv_freq", inv_freq)

    def forward(self, n, dtype):
        freqs = torch.outer(torch.arange(n).double(), self.inv_freq)
        emb = freqs.repeat_interleave(2, dim=-1)
        return emb.cos().to(dtype), emb.sin().to(dtype)


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class RotarySelfAttention(nn.Module):
    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.rotary = RotaryEmbedding(dim // heads)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = (z.view(b, n, self.heads, -1).transpose(1, 2) for z in self.qkv(x).chunk(3, dim=-1))
        cos, sin = self.rotary(n, x.dtype)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, n, d))
