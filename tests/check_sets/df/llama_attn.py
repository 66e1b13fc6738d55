"""Grouped-query attention as in Llama 2 70B / Llama 3, loads the released weights."""
import torch
import torch.nn.functional as F
from torch import nn


def precompute_freqs_cis(dim: int, end: int, theta: float = 10000.0):
    freqs = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
    t = torch.outer(torch.arange(end).float(), freqs)
    return torch.polar(torch.ones_like(t), t)


def apply_rotary(x, freqs_cis):
    x_ = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(x_ * freqs_cis[None, :, None, :]).flatten(3).type_as(x)


def repeat_kv(x, n_rep: int):
    """(B, S, n_kv, d) -> (B, S, n_kv * n_rep, d); each kv head serves n_rep neighbouring query heads"""
    B, S, n_kv, d = x.shape
    if n_rep == 1:
        return x
    return x[:, :, None].expand(B, S, n_rep, n_kv, d).reshape(B, S, n_kv * n_rep, d)


class LlamaAttn(nn.Module):
    def __init__(self, dim=32, n_heads=8, n_kv_heads=2, max_len=64):
        super().__init__()
        self.n_heads, self.n_kv, self.hd = n_heads, n_kv_heads, dim // n_heads
        self.wq = nn.Linear(dim, n_heads * self.hd, bias=False)
        self.wk = nn.Linear(dim, n_kv_heads * self.hd, bias=False)
        self.wv = nn.Linear(dim, n_kv_heads * self.hd, bias=False)
        self.wo = nn.Linear(n_heads * self.hd, dim, bias=False)
        self.register_buffer("freqs_cis", precompute_freqs_cis(self.hd, max_len), persistent=False)

    def forward(self, x):
        B, S, _ = x.shape
        q = self.wq(x).view(B, S, self.n_heads, self.hd)
        k = self.wk(x).view(B, S, self.n_kv, self.hd)
        v = self.wv(x).view(B, S, self.n_kv, self.hd)
        q, k = apply_rotary(q, self.freqs_cis[:S]), apply_rotary(k, self.freqs_cis[:S])
        k = repeat_kv(k, self.n_heads // self.n_kv)
        v = repeat_kv(v, self.n_heads // self.n_kv)
        q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.wo(y.transpose(1, 2).reshape(B, S, -1))
