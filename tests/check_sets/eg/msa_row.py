"""Tied row attention for multiple sequence alignments (MSA Transformer, Rao et al. 2021)."""
import math

import torch
import torch.nn as nn


class RowSelfAttention(nn.Module):
    """All rows of the alignment share one attention map.

    x: (R, C, B, E)  rows, columns, batch, embedding.
    padding_mask: (B, R, C) bool, True = padding. Padded cells give nothing to the shared map; a
    column is never attended when its cell in the first row (the query sequence) is padding.
    Column 0 of row 0 is always real.
    The map is softmax_j( sum_r q_ri . k_rj / (sqrt(head_dim) * sqrt(R)) ), R counting all rows.
    Returns (output (R, C, B, E), map (H, B, C, C)).
    """

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.scaling = self.head_dim ** -0.5
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def align_scaling(self, q):
        return self.scaling / math.sqrt(q.size(0))

    def forward(self, x, padding_mask=None):
        R, C, B, E = x.shape
        q = self.q_proj(x).view(R, C, B, self.num_heads, self.head_dim)
        k = self.k_proj(x).view(R, C, B, self.num_heads, self.head_dim)
        q = q * self.align_scaling(q)
        if padding_mask is not None:
            q = q * (1 - padding_mask.permute(1, 2, 0).unsqueeze(3).unsqueeze(4).to(q))
        attn = torch.einsum("rinhd,rjnhd->hnij", q, k)
        if padding_mask is not None:
            attn = attn.masked_fill(padding_mask[:, 0].unsqueeze(0).unsqueeze(2), float("-inf"))
        probs = attn.softmax(-1)
        v = self.v_proj(x).view(R, C, B, self.num_heads, self.head_dim)
        ctx = torch.einsum("hnij,rjnhd->rinhd", probs, v).contiguous().view(R, C, B, E)
        return self.out_proj(ctx), probs
