"""Causal self-attention with rotary positions, weights are loaded from a HF LLaMA checkpoint.

hidden_states (bsz, q_len, hidden) -> same shape; positions are 0 .. q_len-1, each token sees
itself and earlier ones.

Rotary convention of HF LLaMA ("rotate_half"): dimension i is paired with i + d/2 and both are turned
by the angle pos * base^(-2i/d), i = 0 .. d/2 - 1, where d is the head dimension.
"""
import torch
import torch.nn.functional as F
from torch import nn


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2:]
    return torch.cat((-x2, x1), dim=-1)


class Rotary(nn.Module):
    def __init__(self, dim, base=10000):
        super().__init__()
        self.register_buffer("inv_freq", 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim)))

    def forward(self, n):
        t = torch.arange(n, device=self.inv_freq.device).float()
        freqs = torch.outer(t, self.inv_freq)
        emb = freqs.repeat_interleave(2, dim=-1)
        return emb.cos(), emb.sin()


class LlamaAttention(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads, self.hd = heads, hidden // heads
        self.q_proj = nn.Linear(hidden, hidden, bias=False)
        self.k_proj = nn.Linear(hidden, hidden, bias=False)
        self.v_proj = nn.Linear(hidden, hidden, bias=False)
        self.o_proj = nn.Linear(hidden, hidden, bias=False)
        self.rotary = Rotary(self.hd)

    def forward(self, hidden_states):
        b, n, c = hidden_states.shape
        q = self.q_proj(hidden_states).view(b, n, self.heads, self.hd).transpose(1, 2)
        k = self.k_proj(hidden_states).view(b, n, self.heads, self.hd).transpose(1, 2)
        v = self.v_proj(hidden_states).view(b, n, self.heads, self.hd).transpose(1, 2)
        cos, sin = self.rotary(n)
        q = q * cos + rotate_half(q) * sin
        k = k * cos + rotate_half(k) * sin
        o = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o_proj(o.transpose(1, 2).reshape(b, n, c))
