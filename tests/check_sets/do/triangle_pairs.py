"""Triangular gated self-attention around the starting node (Suppl. Alg. 13).

z    (B, N, N, C)  pair representation
mask (B, N, N)     1 = both residues exist, 0 = padding

for every i:  a^h_{ijk} = softmax_k( q^h_ij . k^h_ik / sqrt(c) + b^h_jk ),  edges (i, k) with
              mask 0 excluded
              o^h_ij    = g^h_ij * sum_k a^h_{ijk} v^h_ik
              update_ij = Linear( concat_h o^h_ij )
Returns the update (B, N, N, C).
"""
import torch
from torch import nn


class TriangleAttentionStart(nn.Module):
    def __init__(self, c_z, c=8, heads=4):
        super().__init__()
        self.c, self.heads = c, heads
        self.norm = nn.LayerNorm(c_z)
        self.to_q = nn.Linear(c_z, c * heads, bias=False)
        self.to_k = nn.Linear(c_z, c * heads, bias=False)
        self.to_v = nn.Linear(c_z, c * heads, bias=False)
        self.to_b = nn.Linear(c_z, heads, bias=False)
        self.to_g = nn.Linear(c_z, c * heads)
        self.to_out = nn.Linear(c * heads, c_z)

    def forward(self, z, mask):
        B, N, _, _ = z.shape
        z = self.norm(z)
        # (B, i, j, H*c) -> (B, i, H, j, c)
        q, k, v = (f(z).view(B, N, N, self.heads, self.c).transpose(2, 3)
                   for f in (self.to_q, self.to_k, self.to_v))
        bias = self.to_b(z).permute(0, 3, 1, 2).unsqueeze(1)          # (B, 1, H, j, k)
        att = torch.matmul(q * self.c ** -0.5, k.transpose(-1, -2)) + bias
        att = att.masked_fill(mask[:, :, None, None, :] == 0, torch.finfo(att.dtype).min)
        att = att.softmax(dim=-1)
        o = torch.matmul(att, v)                                      # (B, i, H, j, c)
        o = o.reshape(B, N, N, self.heads * self.c)
        o = torch.sigmoid(self.to_g(z)) * o
        return self.to_out(o)
