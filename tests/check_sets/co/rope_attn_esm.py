"""Protein language model, self-attention with rotary position embeddings (ESM-2 flavour, bidirectional).

Rotary: the i-th channel pair of q and k is turned by the angle pos * theta^(-2i/d), so that q.k depends on
relative positions only and norms are kept.
"""
import torch
import torch.nn as nn
from torch import Tensor

AA = "LAGVSERTIDPKQNFYMHWCXBUZO.-"


def rotate_half(x: Tensor) -> Tensor:
    x1, x2 = x.chunk(2, dim=-1)
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    return x * cos + rotate_half(x) * sin


class RotaryEmbedding(nn.Module):
    def __init__(self, dim: int, theta: float = 10000.0):
        super().__init__()
        inv_freq = 1.0 / (theta ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq)

    def forward(self, q: Tensor, k: Tensor):
        t = torch.arange(q.shape[-2], device=q.device).type_as(self.inv_freq)
        freqs = torch.outer(t, self.inv_freq)
        emb = freqs.repeat_interleave(2, dim=-1)
        cos, sin = emb.cos()[None, None], emb.sin()[None, None]
        return apply_rotary_pos_emb(q, cos, sin), apply_rotary_pos_emb(k, cos, sin)


class ESMSelfAttention(nn.Module):
    def __init__(self, embed_dim: int = 32, num_heads: int = 4):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.rot = RotaryEmbedding(self.head_dim)

    def forward(self, x: Tensor, padding_mask: Tensor = None) -> Tensor:
        """x: B x L x E, padding_mask: B x L (True = padding)"""
        B, L, E = x.shape
        q, k, v = (
            f(x).view(B, L, self.num_heads, self.head_dim).transpose(1, 2)
            for f in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = self.rot(q, k)
        w = (q * self.head_dim ** -0.5) @ k.transpose(-1, -2)
        if padding_mask is not None:
            w = w.masked_fill(padding_mask[:, None, None, :], torch.finfo(w.dtype).min)
        w = torch.softmax(w.float(), dim=-1).type_as(v)
        return self.out_proj((w @ v).transpose(1, 2).reshape(B, L, E))
