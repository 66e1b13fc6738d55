"""Okno: shifted local windows over sensor sequences (1-D Swin)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class OknoAttention(nn.Module):
    """Attention inside blocks of `w` steps. With shift > 0 the sequence is rolled left before
    it is cut into blocks, and rolled back afterwards, so that output t belongs to input t;
    the block that holds both ends of the sequence is masked so that the ends do not mix."""

    def __init__(self, dim, heads, w, shift):
        super().__init__()
        self.heads, self.w, self.shift = heads, w, shift
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        B, L, D = x.shape
        n = L // self.w
        if self.shift:
            x = x.roll(-self.shift, dims=1)
        qkv = self.qkv(x).view(B, n, self.w, 3, self.heads, D // self.heads)
        q, k, v = qkv.permute(3, 0, 1, 4, 2, 5)  # each (B, n, heads, w, d)
        mask = None
        if self.shift:
            side = (torch.arange(L, device=x.device) >= L - self.shift).view(n, self.w)
            mask = (side[:, :, None] == side[:, None, :])[None, :, None]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = self.out(y.transpose(2, 3).reshape(B, L, D))
        if self.shift:
            y = y.roll(-self.shift, dims=1)
        return y


class Okno(nn.Module):
    """x (B, L, dim) -> (B, L, dim), L a multiple of w. A plain and a shifted layer, pre-norm."""

    def __init__(self, dim=16, heads=2, w=6, shift=2):
        super().__init__()
        self.layers = nn.ModuleList([OknoAttention(dim, heads, w, 0), OknoAttention(dim, heads, w, shift)])
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2))

    def forward(self, x):
        for norm, att in zip(self.norms, self.layers):
            x = x + att(norm(x))
        return x
