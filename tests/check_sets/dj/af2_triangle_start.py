"""AlphaFold 2, supplementary Algorithm 13: triangular gated self-attention around
the starting node.

    q_ij, k_ij, v_ij = LinearNoBias(z_ij)          per head h
    b_ij             = LinearNoBias(z_ij)          one scalar per head
    g_ij             = sigmoid(Linear(z_ij))
    a_ijk            = softmax_k( q_ij . k_ik / sqrt(c) + b_jk )
    o_ij             = g_ij * sum_k a_ijk v_ik
    z~_ij            = Linear(concat_h o_ij)
"""
import torch
import torch.nn as nn


class TriangleAttentionStartingNode(nn.Module):
    """z (B, N, N, c_z) pair representation, pair_mask (B, N, N): 1 = both residues exist,
    0 = padding (entry [i, k] says whether edge ik may be read). Returns the update,
    (B, N, N, c_z), not yet added to z; entries of padded edges are meaningless."""

    inf = 1e9

    def __init__(self, c_z=16, c=8, heads=2):
        super().__init__()
        self.c, self.heads = c, heads
        self.norm = nn.LayerNorm(c_z)
        self.qkv = nn.Linear(c_z, 3 * heads * c, bias=False)
        self.bias = nn.Linear(c_z, heads, bias=False)
        self.gate = nn.Linear(c_z, heads * c)
        self.out = nn.Linear(heads * c, c_z)

    def forward(self, z, pair_mask):
        z = self.norm(z)
        B, N = z.shape[:2]
        q, k, v = self.qkv(z).view(B, N, N, 3, self.heads, self.c).unbind(3)   # (B,N,N,H,c)
        q = q / self.c ** 0.5

        logits = torch.einsum("bijhc,bikhc->bihjk", q, k)
        b = self.bias(z).permute(0, 3, 1, 2)                 # (B, H, j, k)
        logits = logits + b.unsqueeze(1)                     # the same for every row i
        # edge (i, k) is the key, so the mask has no j
        logits = logits + self.inf * (pair_mask[:, :, None, None, :] - 1.0)

        a = torch.softmax(logits, dim=-1)
        o = torch.einsum("bihjk,bikhc->bijhc", a, v).flatten(-2)
        return self.out(torch.sigmoid(self.gate(z)) * o)
