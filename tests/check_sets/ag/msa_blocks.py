"""Row and column attention over a multiple sequence alignment.

Tensors follow the layout (rows, cols, batch, channels). Row attention is *tied*:
one attention map per head is shared by all rows of the alignment; the logits are the
sum over the rows of the per-row dot products, divided by sqrt(rows * head_dim)
("square root normalisation", Rao et al. 2021). Padded residues add nothing to the sum.
"""
import torch
import torch.nn as nn


class _AxisAttention(nn.Module):
    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.num_heads = num_heads
        self.head_dim = embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)
        self.dropout_module = nn.Dropout(dropout)

    def heads(self, x):
        return x.view(*x.shape[:3], self.num_heads, self.head_dim)


class TiedRowAttention(_AxisAttention):
    def align_scaling(self, num_rows):
        return (self.head_dim ** -0.5) / (num_rows ** 0.5)

    def forward(self, x, padding_mask=None):
        """
        x: (R, C, B, E)
        padding_mask: (B, R, C) bool, True at padding. A column is dropped as a key
            when its residue in the query sequence (row 0) is padding.
        returns (R, C, B, E) and probabilities (H, B, C, C)
        """
        R, C, B, E = x.shape
        q = self.heads(self.q_proj(x)) * self.align_scaling(R)
        k = self.heads(self.k_proj(x))
        v = self.heads(self.v_proj(x))
        if padding_mask is not None:
            gap = padding_mask.permute(1, 2, 0)[..., None, None]
            q = q.masked_fill(gap, 0.0)
            k = k.masked_fill(gap, 0.0)

        logits = torch.einsum("rinhd,rjnhd->hnij", q, k)
        if padding_mask is not None:
            dead = padding_mask[:, 0][None, :, None, :]
            logits = logits.masked_fill(dead, torch.finfo(logits.dtype).min)
        probs = logits.softmax(dim=-1)
        ctx = torch.einsum("hnij,rjnhd->rinhd", self.dropout_module(probs), v)
        return self.out_proj(ctx.reshape(R, C, B, E)), probs


class ColumnAttention(_AxisAttention):
    def forward(self, x, padding_mask=None):
        R, C, B, E = x.shape
        q = self.heads(self.q_proj(x)) * self.head_dim ** -0.5
        k = self.heads(self.k_proj(x))
        v = self.heads(self.v_proj(x))
        logits = torch.einsum("icnhd,jcnhd->hcnij", q, k)
        if padding_mask is not None:
            dead = padding_mask.permute(2, 0, 1)[None, :, :, None, :]
            logits = logits.masked_fill(dead, torch.finfo(logits.dtype).min)
        probs = logits.softmax(dim=-1)
        ctx = torch.einsum("hcnij,jcnhd->icnhd", self.dropout_module(probs), v)
        return self.out_proj(ctx.reshape(R, C, B, E)), probs


class AxialBlock(nn.Module):
    def __init__(self, embed_dim, num_heads, ffn_dim=None, dropout=0.1):
        super().__init__()
        ffn_dim = ffn_dim or 4 * embed_dim
        self.row = TiedRowAttention(embed_dim, num_heads, dropout)
        self.col = ColumnAttention(embed_dim, num_heads, dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(embed_dim) for _ in range(3))
        self.ffn = nn.Sequential(nn.Linear(embed_dim, ffn_dim), nn.GELU(),
                                 nn.Linear(ffn_dim, embed_dim))

    def forward(self, x, padding_mask=None):
        x = x + self.row(self.norms[0](x), padding_mask)[0]
        x = x + self.col(self.norms[1](x), padding_mask)[0]
        return x + self.ffn(self.norms[2](x))
