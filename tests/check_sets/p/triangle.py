import torch
from torch import nn


class TriangleAttentionStartingNode(nn.Module):
    """AlphaFold 2, algorithm 13: gated attention around the starting node; z (R, R, c_z).

    q_ij . k_ik / sqrt(c) + b_jk, softmax over k, values v_ik
    """

    def __init__(self, c_z=8, c=4, heads=2):
        super().__init__()
        self.c, self.heads = c, heads
        self.norm = nn.LayerNorm(c_z)
        self.qkv = nn.Linear(c_z, 3 * heads * c, bias=False)
        self.bias = nn.Linear(c_z, heads, bias=False)
        self.gate = nn.Linear(c_z, heads * c)
        self.out = nn.Linear(heads * c, c_z)

    def forward(self, z):
        z = self.norm(z)
        r = z.shape[0]
        q, k, v = self.qkv(z).view(r, r, 3, self.heads, self.c).unbind(2)
        b = self.bias(z)
        a = torch.einsum("ijhc,ikhc->ijkh", q, k) / self.c ** 0.5 + b[None]
        a = a.softmax(dim=2)
        o = torch.einsum("ijkh,ikhc->ijhc", a, v).reshape(r, r, -1)
        return self.out(torch.sigmoid(self.gate(z)) * o)
