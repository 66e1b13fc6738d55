"""MSA row-wise gated self-attention with pair bias (AlphaFold 2, Suppl. Algorithm 7)."""
import torch
import torch.nn as nn


class RowAttentionWithPairBias(nn.Module):
    """
    Every row s of the MSA attends over its own residues; the pair representation
    adds the same bias to all rows.

    Args:
        c_m, c_z: channels of the MSA and of the pair representation
        c: channels per head
    Shapes:
        m    [*, S, I, c_m]
        z    [*, I, I, c_z]
        mask [*, S, I] 1 for residues that are there, 0 for gaps at the end
        out  [*, S, I, c_m]
    """

    def __init__(self, c_m: int = 16, c_z: int = 8, c: int = 8, n_head: int = 4, inf: float = 1e9):
        super().__init__()
        self.n_head, self.c, self.inf = n_head, c, inf
        self.ln_m = nn.LayerNorm(c_m)
        self.ln_z = nn.LayerNorm(c_z)
        self.linear_q = nn.Linear(c_m, n_head * c, bias=False)
        self.linear_k = nn.Linear(c_m, n_head * c, bias=False)
        self.linear_v = nn.Linear(c_m, n_head * c, bias=False)
        self.linear_b = nn.Linear(c_z, n_head, bias=False)
        self.linear_g = nn.Linear(c_m, n_head * c)
        self.linear_o = nn.Linear(n_head * c, c_m)

    def forward(self, m, z, mask=None):
        m = self.ln_m(m)
        b = self.linear_b(self.ln_z(z))                       # [*, I, J, H]
        split = m.shape[:-1] + (self.n_head, self.c)
        q = self.linear_q(m).view(split) * self.c ** -0.5
        k = self.linear_k(m).view(split)
        v = self.linear_v(m).view(split)
        g = torch.sigmoid(self.linear_g(m)).view(split)

        a = torch.einsum("...sihc,...sjhc->...shij", q, k)
        a = a + b.movedim(-1, -3).unsqueeze(-4)
        if mask is not None:
            a = a + (self.inf * (mask - 1))[..., None, None, :]
        a = torch.softmax(a, dim=-1)
        o = torch.einsum("...shij,...sjhc->...sihc", a, v)
        o = (g * o).flatten(-2)
        return self.linear_o(o)
