"""Rotary attention extracted from my Llama trainer, complex numbers replaced by sin/cos.

torch.compile did not like torch.view_as_complex, so I wrote the rotation with real tensors.
Convention (Hugging Face): channel i is paired with channel i + d/2, and the pair turns by
the angle pos * theta^(-2i/d).  Queries and keys are rotated, values are not; the score
between two tokens then depends on their distance only.
"""
import torch
import torch.nn as nn


def build_cos_sin(length, d, theta=10000.0):
    freq = theta ** (-torch.arange(0, d, 2).float() / d)
    angle = torch.outer(torch.arange(length).float(), freq)      # (length, d / 2)
    angle = torch.repeat_interleave(angle, 2, dim=-1)           # (length, d)
    return angle.cos(), angle.sin()


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


class RotarySelfAttention(nn.Module):
    """x (B, T, dim) -> (B, T, dim), causal (a token sees itself and what is before it)."""

    def __init__(self, dim, n_heads, max_len=2048):
        super().__init__()
        self.n_heads, self.head_dim = n_heads, dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        cos, sin = build_cos_sin(max_len, self.head_dim)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def rope(self, x):
        T = x.size(-2)
        return x * self.cos[:T] + rotate_half(x) * self.sin[:T]

    def forward(self, x):
        B, T, dim = x.shape
        q, k, v = (w(x).view(B, T, self.n_heads, self.head_dim).transpose(1, 2)
                   for w in (self.wq, self.wk, self.wv))
        q, k = self.rope(q), self.rope(k)
        scores = q @ k.transpose(-2, -1) * self.head_dim ** -0.5
        later = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), diagonal=1)
        scores = scores.masked_fill(later, float("-inf"))
        y = scores.softmax(dim=-1) @ v
        return self.wo(y.transpose(1, 2).reshape(B, T, dim))
