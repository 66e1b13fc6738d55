import torch
import torch.nn.functional as F
from torch import nn


class ParatopeLayer(nn.Module):
    """Antibody residues attend to antigen residues.

    antibody (B, T, width), antigen (B, S, width)
    antigen_keep (B, S) bool, True = real residue; every antigen has at least one.
    Scaled dot-product attention in each head.
    """

    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.temper = width ** -0.5
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.o = nn.Linear(width, width)
        self.ln = nn.LayerNorm(width)

    def forward(self, antibody, antigen, antigen_keep=None):
        q = self.q(self.ln(antibody)).unflatten(-1, (self.heads, -1)).transpose(1, 2)
        k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
                for t in self.kv(antigen).chunk(2, dim=-1))
        m = None if antigen_keep is None else antigen_keep[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=m, scale=self.temper)
        return antibody + self.o(y.transpose(1, 2).flatten(2))
