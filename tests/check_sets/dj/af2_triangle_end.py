"""AlphaFold 2, supplementary Algorithm 14: triangular gated self-attention around the
ending node.

    a_ijk = softmax_k( q_ij . k_kj / sqrt(c) + b_ki )
    o_ij  = g_ij * sum_k a_ijk v_kj ,     b_ki = Linear(z_ki)

It is Algorithm 13 with rows and columns exchanged, so we transpose, attend along rows,
and transpose back.
"""
import torch
from torch import nn


class TriangleAttentionEndingNode(nn.Module):
    """z (B, N, N, c_z); pair_mask (B, N, N) bool, entry [k, j] True = edge kj exists and
    may be read (the diagonal always exists). Returns the update (B, N, N, c_z)."""

    def __init__(self, c_z=16, c=8, heads=2):
        super().__init__()
        self.heads, self.c = heads, c
        self.ln = nn.LayerNorm(c_z)
        self.to_q = nn.Linear(c_z, heads * c, bias=False)
        self.to_k = nn.Linear(c_z, heads * c, bias=False)
        self.to_v = nn.Linear(c_z, heads * c, bias=False)
        self.to_b = nn.Linear(c_z, heads, bias=False)
        self.to_g = nn.Linear(c_z, heads * c)
        self.to_out = nn.Linear(heads * c, c_z)

    def forward(self, z, pair_mask):
        z = self.ln(z)
        b = self.to_b(z).movedim(-1, 1).unsqueeze(2)

        z = z.transpose(1, 2)
        keep = pair_mask.transpose(1, 2)[:, None, :, None, :]         # (B, 1, row, 1, key)
        heads = lambda t: t.unflatten(-1, (self.heads, self.c)).movedim(3, 1)
        q, k, v = heads(self.to_q(z)), heads(self.to_k(z)), heads(self.to_v(z))

        s = q @ k.transpose(-1, -2) * self.c ** -0.5                  # (B, H, row, N, N)
        s = s + b
        a = s.masked_fill(~keep, torch.finfo(s.dtype).min).softmax(-1)
        o = (a @ v).movedim(1, 3).flatten(-2)
        out = self.to_out(torch.sigmoid(self.to_g(z)) * o)
        return out.transpose(1, 2)
