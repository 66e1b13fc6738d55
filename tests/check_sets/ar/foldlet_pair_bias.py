"""foldlet: a readable re-write of parts of AlphaFold2's Evoformer (Suppl. Alg. 7).

MSA row-wise gated self-attention with pair bias.

Shapes:  m [*, S, R, c_m]   MSA representation
         z [*, R, R, c_z]   pair representation (z[i, j] biases query i, key j)
         msa_mask [*, S, R] 1.0 = residue present, 0.0 = gap in the padding
"""
import torch
from torch import nn, einsum


class GatedRowAttention(nn.Module):
    def __init__(self, c_m=256, c_z=128, c=32, n_head=8, inf=1e9):
        super().__init__()
        self.c, self.n_head, self.inf = c, n_head, inf
        self.ln_m = nn.LayerNorm(c_m)
        self.ln_z = nn.LayerNorm(c_z)
        self.to_bias = nn.Linear(c_z, n_head, bias=False)
        self.w_q = nn.Parameter(torch.randn(c_m, n_head, c) * c_m ** -0.5)
        self.w_k = nn.Parameter(torch.randn(c_m, n_head, c) * c_m ** -0.5)
        self.w_v = nn.Parameter(torch.randn(c_m, n_head, c) * c_m ** -0.5)
        self.w_g = nn.Parameter(torch.zeros(c_m, n_head, c))
        self.b_g = nn.Parameter(torch.ones(n_head, c))
        self.w_o = nn.Parameter(torch.randn(n_head, c, c_m) * (n_head * c) ** -0.5)
        self.b_o = nn.Parameter(torch.zeros(c_m))

    def forward(self, m, z, msa_mask=None):
        m = self.ln_m(m)
        q = einsum("...sia,ahc->...sihc", m, self.w_q) * self.c ** -0.5
        k = einsum("...sia,ahc->...sihc", m, self.w_k)
        v = einsum("...sia,ahc->...sihc", m, self.w_v)
        g = torch.sigmoid(einsum("...sia,ahc->...sihc", m, self.w_g) + self.b_g)

        b = self.to_bias(self.ln_z(z))                        # [*, R, R, H]
        b = b.movedim(-1, -3).unsqueeze(-4)                   # [*, 1, H, R, R]
        logits = einsum("...sihc,...sjhc->...shij", q, k) + b
        if msa_mask is not None:
            logits = logits + (self.inf * (msa_mask - 1.0))[..., :, None, None, :]
        a = logits.softmax(dim=-1)

        o = g * einsum("...shij,...sjhc->...sihc", a, v)
        return einsum("...sihc,hco->...sio", o, self.w_o) + self.b_o


class Transition(nn.Module):
    def __init__(self, c, n=4):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, n * c), nn.ReLU(), nn.Linear(n * c, c))

    def forward(self, x):
        return self.net(x)


class MiniEvoformer(nn.Module):
    def __init__(self, c_m, c_z, depth=2, **kw):
        super().__init__()
        self.rows = nn.ModuleList([GatedRowAttention(c_m, c_z, **kw) for _ in range(depth)])
        self.trans = nn.ModuleList([Transition(c_m) for _ in range(depth)])

    def forward(self, m, z, msa_mask=None):
        for r, t in zip(self.rows, self.trans):
            m = m + r(m, z, msa_mask)
            m = m + t(m)
        return m


if __name__ == "__main__":
    net = MiniEvoformer(16, 8, c=4, n_head=2)
    print(net(torch.randn(2, 3, 5, 16), torch.randn(2, 5, 5, 8)).shape)
