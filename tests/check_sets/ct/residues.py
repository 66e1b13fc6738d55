"""Rotary self-attention over protein residues."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Rotary(nn.Module):
    """cos and sin tables, (L, d); pair p turns with base ** (-2p / d)."""

    def __init__(self, d, base=10000.0):
        super().__init__()
        inv = base ** (-torch.arange(0, d, 2).float() / d)
        self.register_buffer("inv", inv, persistent=False)

    def forward(self, L):
        ang = torch.outer(torch.arange(L, device=self.inv.device).float(), self.inv)
        ang = ang.repeat_interleave(2, dim=-1)
        return ang.cos(), ang.sin()


def rotate_half(x):
    a, b = x.chunk(2, dim=-1)
    return torch.cat((-b, a), dim=-1)


def turn(x, cos, sin):
    return x * cos + rotate_half(x) * sin


class ResidueAttention(nn.Module):
    """
    x: (B, L, dim); valid: (B, L) bool, True = residue resolved. Both directions.

    Channels c and c + d/2 of a head form a pair that is rotated by its position, so
    scores depend on the distance of two residues only. At least one residue
    must be valid. Returns (B, L, dim).
    """

    def __init__(self, dim=32, heads=2):
        super().__init__()
        self.heads = heads
        self.d = dim // heads
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)
        self.rotary = Rotary(self.d)

    def forward(self, x, valid=None):
        B, L, D = x.shape
        q, k, v = self.in_proj(x).view(B, L, 3, self.heads, self.d).permute(2, 0, 3, 1, 4)
        cos, sin = self.rotary(L)
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        mask = None if valid is None else valid[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.out_proj(y.transpose(1, 2).reshape(B, L, D))
