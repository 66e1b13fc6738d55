"""Rotary encoder for source code search (embedding model, bidirectional)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


def build_rope_cache(seq_len, dim, base=10000):
    """cos, sin of shape (seq_len, dim) for the angle t * base^(-2i/dim) of pair i."""
    theta = 1.0 / (base ** (torch.arange(0, dim, 2).float() / dim))
    idx_theta = torch.outer(torch.arange(seq_len).float(), theta)
    idx_theta = idx_theta.repeat_interleave(2, dim=-1)
    return idx_theta.cos(), idx_theta.sin()


def rotate_half(x):
    x1 = x[..., : x.shape[-1] // 2]
    x2 = x[..., x.shape[-1] // 2:]
    return torch.cat((-x2, x1), dim=-1)


def apply_rope(x, cos, sin):
    """Rotates each pair of channels of x (B, H, T, d) by its angle; keeps the length of vectors."""
    return x * cos + rotate_half(x) * sin


class RotaryAttention(nn.Module):
    """x (B, T, D) -> (B, T, D). valid (B, T) bool with True = token, at least one per row.

    Scores depend on positions only through their difference.
    """

    def __init__(self, dim=64, heads=4, max_len=128):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.wqkv = nn.Linear(dim, 3 * dim)
        self.wo = nn.Linear(dim, dim)
        cos, sin = build_rope_cache(max_len, self.hd)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, valid):
        B, T, D = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.heads, self.hd).permute(2, 0, 3, 1, 4)
        q = apply_rope(q, self.cos[:T], self.sin[:T])
        k = apply_rope(k, self.cos[:T], self.sin[:T])
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=valid[:, None, None, :])
        return self.wo(y.transpose(1, 2).reshape(B, T, D))


class CodeEncoder(nn.Module):
    """ids (B, T), 0 = padding -> unit vectors (B, D)"""

    def __init__(self, vocab=200, dim=64, layers=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim, padding_idx=0)
        self.att = nn.ModuleList([RotaryAttention(dim) for _ in range(layers)])
        self.norm = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])

    def forward(self, ids):
        valid = ids != 0
        x = self.tok(ids)
        for att, norm in zip(self.att, self.norm):
            x = x + att(norm(x), valid)
        w = valid.unsqueeze(-1).float()
        return F.normalize((x * w).sum(1) / w.sum(1), dim=-1)
