import torch
from torch import nn


def apply_rotary(x, pos, base=10000.0):
    """x (..., T, d): pairs (2i, 2i+1) are turned by pos * base^(-2i/d)."""
    d = x.shape[-1]
    freq = base ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    angle = pos.to(x.dtype)[:, None] * freq
    z = torch.view_as_complex(x.reshape(*x.shape[:-1], d // 2, 2).contiguous())
    return torch.view_as_real(z * torch.polar(torch.ones_like(angle), angle)).flatten(-2)


class MultiHeadLatentAttention(nn.Module):
    """DeepSeek-V2: keys and values from a small latent, a shared rotary key beside it."""

    def __init__(self, dim=24, n_heads=2, kv_rank=6, nope=4, rope=4, v_dim=5):
        super().__init__()
        self.n_heads, self.nope, self.rope, self.v_dim = n_heads, nope, rope, v_dim
        self.q = nn.Linear(dim, n_heads * (nope + rope), bias=False)
        self.kv_a = nn.Linear(dim, kv_rank + rope, bias=False)
        self.kv_norm = nn.RMSNorm(kv_rank, eps=1e-6)
        self.kv_b = nn.Linear(kv_rank, n_heads * (nope + v_dim), bias=False)
        self.o = nn.Linear(n_heads * v_dim, dim, bias=False)

    def forward(self, x):
        B, T, _ = x.shape
        pos = torch.arange(T)
        q = self.q(x).view(B, T, self.n_heads, -1).transpose(1, 2)
        q_nope, q_pe = q.split([self.nope, self.rope], dim=-1)
        latent, k_pe = self.kv_a(x).split([self.kv_a.out_features - self.rope, self.rope], dim=-1)
        k_nope, v = self.kv_b(self.kv_norm(latent)).view(B, T, self.n_heads, -1).transpose(1, 2).split([self.nope, self.v_dim], dim=-1)
        q_pe, k_pe = apply_rotary(q_pe, pos), apply_rotary(k_pe[:, None], pos)
        s = q_nope @ k_nope.mT + q_pe @ k_pe.mT
        s = s / (self.nope + self.rope) ** 0.5
        s = s + torch.full((T, T), float("-inf")).triu(1).to(s.dtype)
        return self.o((s.softmax(-1) @ v).transpose(1, 2).flatten(2))
