"""MSA row-wise gated self-attention with pair bias (Evoformer, Algorithm 7).

Within each sequence (row) of the alignment the residues attend to each other.
The logits get a bias per head from the pair representation, shared by all rows;
the result of every head is multiplied by a sigmoid gate computed from the
normalised MSA.
"""
import torch
from torch import nn


class MSARowAttentionWithPairBias(nn.Module):
    """
    Args:
        c_m: channels of the MSA representation
        c_z: channels of the pair representation
        c_hidden: width of one head
        no_heads: number of heads
        inf: size of the penalty on masked residues
    """

    def __init__(self, c_m=32, c_z=16, c_hidden=8, no_heads=4, inf=1e9):
        super().__init__()
        self.c_hidden = c_hidden
        self.no_heads = no_heads
        self.inf = inf
        self.layer_norm_m = nn.LayerNorm(c_m)
        self.layer_norm_z = nn.LayerNorm(c_z)
        self.linear_z = nn.Linear(c_z, no_heads, bias=False)
        self.linear_q = nn.Linear(c_m, c_hidden * no_heads, bias=False)
        self.linear_k = nn.Linear(c_m, c_hidden * no_heads, bias=False)
        self.linear_v = nn.Linear(c_m, c_hidden * no_heads, bias=False)
        self.linear_g = nn.Linear(c_m, c_hidden * no_heads)
        self.linear_o = nn.Linear(c_hidden * no_heads, c_m)

    def forward(self, m, z, mask=None):
        """
        m: [*, N_seq, N_res, C_m]
        z: [*, N_res, N_res, C_z]
        mask: [*, N_seq, N_res] with 1 for residues and 0 for gaps / padding
        returns the update of m, same shape
        """
        if mask is None:
            mask = m.new_ones(m.shape[:-1])
        mask_bias = (self.inf * (mask - 1))[..., :, None, None, :]

        m = self.layer_norm_m(m)
        z = self.linear_z(self.layer_norm_z(z))
        z = z.movedim(-1, -3).unsqueeze(-4)          # [*, 1, H, N_res, N_res]

        def heads(t):
            return t.unflatten(-1, (self.no_heads, self.c_hidden)).transpose(-2, -3)

        q = heads(self.linear_q(m)) / self.c_hidden ** 0.5
        k = heads(self.linear_k(m))
        v = heads(self.linear_v(m))                  # [*, N_seq, H, N_res, c]

        a = torch.matmul(q, k.transpose(-1, -2))
        a = a + z + mask_bias
        a = torch.softmax(a, dim=-1)
        o = torch.matmul(a, v).transpose(-2, -3)     # [*, N_seq, N_res, H, c]

        g = torch.sigmoid(self.linear_g(m)).unflatten(-1, (self.no_heads, self.c_hidden))
        return self.linear_o((o * g).flatten(-2))
