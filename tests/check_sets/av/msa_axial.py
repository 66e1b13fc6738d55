"""Axial attention over multiple sequence alignments.

Tensors are [rows, cols, batch, dim] (rows = sequences, cols = residues).
"""
import math
import torch
import torch.nn as nn


class RowSelfAttention(nn.Module):
    """Tied row attention: one map over the columns, shared by all rows, the logits
    summed over rows and scaled by 1/sqrt(head_dim * rows)."""

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.hd = dim // heads
        self.k_proj = nn.Linear(dim, dim)
        self.v_proj = nn.Linear(dim, dim)
        self.q_proj = nn.Linear(dim, dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, padding_mask=None):
        """padding_mask: bool [batch, rows, cols], True at padding; a column that is
        padding in the first row is padding in every row."""
        R, C, B, D = x.shape
        q = self.q_proj(x).view(R, C, B, self.heads, self.hd)
        k = self.k_proj(x).view(R, C, B, self.heads, self.hd)
        v = self.v_proj(x).view(R, C, B, self.heads, self.hd)
        q = q / math.sqrt(self.hd * R)
        if padding_mask is not None:
            q = q * (~padding_mask).permute(1, 2, 0)[..., None, None].to(q)
        w = torch.einsum("rinhd,rjnhd->hnij", q, k)
        if padding_mask is not None:
            w = w.masked_fill(padding_mask[:, 0][None, :, None, :], torch.finfo(w.dtype).min)
        p = w.softmax(-1)
        ctx = torch.einsum("hnij,rjnhd->rinhd", p, v)
        return self.out_proj(ctx.reshape(R, C, B, D)), p


class FeedForward(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(dim, 4 * dim), nn.Linear(4 * dim, dim)

    def forward(self, x):
        return self.fc2(torch.nn.functional.gelu(self.fc1(x)))


class AxialLayer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.row = RowSelfAttention(dim, heads)
        self.ff = FeedForward(dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def forward(self, x, padding_mask=None):
        x = x + self.row(self.n1(x), padding_mask)[0]
        return x + self.ff(self.n2(x))


def one_hot_msa(seqs, alphabet="ACDEFGHIKLMNPQRSTVWY-"):
    idx = torch.tensor([[alphabet.index(c) for c in s] for s in seqs])
    return torch.nn.functional.one_hot(idx, len(alphabet)).float()
