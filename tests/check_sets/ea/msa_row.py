"""MSA row-wise gated self-attention with pair bias (AlphaFold 2, supplement, Algorithm 7).

msa   [*, S, R, c_m]   S sequences, R residues
pair  [*, R, R, c_z]   pair[i, j] biases the logit of query residue i and key residue j
mask  [*, S, R]        1. = real residue, 0. = padding / gap to be ignored as a key
returns the UPDATE (no residual added) [*, S, R, c_m].

Rows of a sequence which is all padding are not used later (they stay finite).
Float32 only.
"""
import torch
from torch import nn


class RowAttentionWithPairBias(nn.Module):
    def __init__(self, c_m, c_z, c_hidden=32, no_heads=8, inf=1e9):
        super().__init__()
        self.c_hidden, self.no_heads, self.inf = c_hidden, no_heads, inf
        self.layer_norm_m = nn.LayerNorm(c_m)
        self.layer_norm_z = nn.LayerNorm(c_z)
        self.linear_z = nn.Linear(c_z, no_heads, bias=False)
        n = c_hidden * no_heads
        self.linear_q = nn.Linear(c_m, n, bias=False)
        self.linear_k = nn.Linear(c_m, n, bias=False)
        self.linear_v = nn.Linear(c_m, n, bias=False)
        self.linear_g = nn.Linear(c_m, n)
        self.linear_o = nn.Linear(n, c_m)

    def _heads(self, t):
        # [*, R, H * C] -> [*, H, R, C]
        return t.unflatten(-1, (self.no_heads, -1)).transpose(-2, -3)

    def forward(self, msa, pair, mask):
        m = self.layer_norm_m(msa)
        # [*, S, 1, 1, R]
        mask_bias = (self.inf * (mask - 1))[..., :, None, None, :]
        # [*, 1, H, R, R]
        pair_bias = self.linear_z(self.layer_norm_z(pair)).movedim(-1, -3).unsqueeze(-4)

        q = self._heads(self.linear_q(m)) / self.c_hidden ** 0.5
        k = self._heads(self.linear_k(m))
        v = self._heads(self.linear_v(m))
        a = torch.matmul(q, k.transpose(-1, -2))
        a = a + mask_bias + pair_bias
        a = torch.softmax(a, dim=-1)
        o = torch.matmul(a, v).transpose(-2, -3)                  # [*, R, H, C]
        g = torch.sigmoid(self.linear_g(m)).unflatten(-1, (self.no_heads, -1))
        return self.linear_o((o * g).flatten(-2))
