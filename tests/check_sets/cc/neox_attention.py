"""Attention of a GPT-NeoX-like model with partial rotary embedding.

The first `rotary_dims` channels of each head are rotated, in the NeoX way: channel i
is paired with channel i + rotary_dims / 2 and both turn by pos * base^(-2i / rotary_dims).
"""
import torch
from torch import nn
import torch.nn.functional as F


class RotaryEmbedding(nn.Module):
    def __init__(self, dim: int, base: float = 10000.0):
        super().__init__()
        inv_freq = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
        self.register_buffer("inv_freq", inv_freq, persistent=False)

    def forward(self, positions: torch.Tensor):
        freqs = torch.einsum("t,f->tf", positions.float(), self.inv_freq)
        emb = freqs.repeat_interleave(2, dim=-1)
        return emb.cos(), emb.sin()


def rotate_half(x):
    x1, x2 = x[..., : x.shape[-1] // 2], x[..., x.shape[-1] // 2 :]
    return torch.cat((-x2, x1), dim=-1)


def apply_rotary_pos_emb(q, k, cos, sin):
    return q * cos + rotate_half(q) * sin, k * cos + rotate_half(k) * sin


class NeoXAttention(nn.Module):
    def __init__(self, hidden=64, heads=4, rotary_pct=0.5):
        super().__init__()
        self.heads = heads
        self.head_size = hidden // heads
        self.rotary_dims = int(self.head_size * rotary_pct)
        self.rotary = RotaryEmbedding(self.rotary_dims)
        self.query_key_value = nn.Linear(hidden, 3 * hidden)
        self.dense = nn.Linear(hidden, hidden)

    def forward(self, x, past=None):
        B, T, _ = x.shape
        # [B, T, heads, 3 * head_size] -> three of [B, heads, T, head_size]
        qkv = self.query_key_value(x).view(B, T, self.heads, 3 * self.head_size)
        q, k, v = qkv.permute(0, 2, 1, 3).chunk(3, dim=-1)

        offset = 0 if past is None else past[0].shape[2]
        cos, sin = self.rotary(torch.arange(offset, offset + T, device=x.device))
        r = self.rotary_dims
        qr, kr = apply_rotary_pos_emb(q[..., :r], k[..., :r], cos.to(x.dtype), sin.to(x.dtype))
        q = torch.cat((qr, q[..., r:]), dim=-1)
        k = torch.cat((kr, k[..., r:]), dim=-1)
        if past is not None:
            k = torch.cat((past[0], k), dim=2)
            v = torch.cat((past[1], v), dim=2)

        S = k.shape[2]
        keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(diagonal=S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        y = y.transpose(1, 2).reshape(B, T, -1)
        return self.dense(y), (k, v)
