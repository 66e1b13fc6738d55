"""Triangular gated self-attention around the starting node (AlphaFold 2, algorithm 13)."""
import torch
import torch.nn as nn


class TriangleStart(nn.Module):
    """z: (B, N, N, c) pair representation, pair_mask: (B, N, N) float, 1 = both residues exist.

    Edge (i, j) attends to the edges (i, k) for all k with a bias from the third edge (j, k):
        a_ijk = softmax_k( q_ij . k_ik / sqrt(d) + b_jk )
    Output (B, N, N, c) is the update (the caller adds it to z); it is 0 on masked pairs.
    """

    def __init__(self, c=16, H=2, d=8):
        super().__init__()
        self.H, self.d = H, d
        self.ln = nn.LayerNorm(c)
        self.to_q = nn.Linear(c, H * d, bias=False)
        self.to_k = nn.Linear(c, H * d, bias=False)
        self.to_v = nn.Linear(c, H * d, bias=False)
        self.to_b = nn.Linear(c, H, bias=False)
        self.to_g = nn.Linear(c, H * d)
        self.to_o = nn.Linear(H * d, c)

    def forward(self, z, pair_mask=None):
        B, N, _, _ = z.shape
        if pair_mask is None:
            pair_mask = z.new_ones(B, N, N)
        z = self.ln(z)
        sp = lambda t: t.view(B, N, N, self.H, self.d)
        q, k, v = sp(self.to_q(z)) * self.d ** -0.5, sp(self.to_k(z)), sp(self.to_v(z))
        b = self.to_b(z)                                             # B j k H
        s = torch.einsum("bijhd,bikhd->bhijk", q, k)
        s = s + b.permute(0, 3, 1, 2)[:, :, None]                    # same for every i
        s = s + 1e9 * (pair_mask - 1)[:, None, :, None, :]           # 0 or -1e9 on (i, k)
        a = s.float().softmax(-1).to(v.dtype)
        o = torch.einsum("bhijk,bikhd->bijhd", a, v).flatten(3)
        o = torch.sigmoid(self.to_g(z)) * o
        return self.to_o(o) * pair_mask[..., None]
