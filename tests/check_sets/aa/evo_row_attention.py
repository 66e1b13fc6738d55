"""MSA row attention with pair bias and gating, after AlphaFold 2 (Alg. 7)."""
import torch
import torch.nn as nn


class MSARowAttentionWithPairBias(nn.Module):
    """msa [B, S, R, c_m], pair [B, R, R, c_z], msa_mask [B, S, R] (1 = present).

    The residues of one sequence attend to each other; every sequence shares
    the bias that comes from the pair representation.
    """

    def __init__(self, c_m=20, c_z=8, c_hidden=6, heads=3, inf=1e9):
        super().__init__()
        self.c_hidden, self.heads, self.inf = c_hidden, heads, inf
        self.norm_m = nn.LayerNorm(c_m)
        self.norm_z = nn.LayerNorm(c_z)
        self.linear_z = nn.Linear(c_z, heads, bias=False)
        inner = heads * c_hidden
        self.linear_q = nn.Linear(c_m, inner, bias=False)
        self.linear_k = nn.Linear(c_m, inner, bias=False)
        self.linear_v = nn.Linear(c_m, inner, bias=False)
        self.linear_g = nn.Linear(c_m, inner)
        self.linear_o = nn.Linear(inner, c_m)

    def _split(self, t):
        return t.unflatten(-1, (self.heads, self.c_hidden))

    def forward(self, msa, pair, msa_mask=None):
        m = self.norm_m(msa)
        bias = self.linear_z(self.norm_z(pair))              # [B, R, R, heads]
        bias = bias.permute(0, 3, 1, 2)[:, None]             # [B, 1, heads, R, R]
        if msa_mask is not None:
            drop = self.inf * (msa_mask - 1)                 # 0 or -inf
            bias = bias + drop[:, :, None, None, :]

        q = self._split(self.linear_q(m)) * self.c_hidden ** -0.5
        k, v = self._split(self.linear_k(m)), self._split(self.linear_v(m))
        gate = self._split(torch.sigmoid(self.linear_g(m)))

        a = torch.einsum("bsihc,bsjhc->bshij", q, k) + bias
        a = torch.softmax(a, dim=-1)
        o = gate * torch.einsum("bshij,bsjhc->bsihc", a, v)
        return self.linear_o(o.flatten(-2))


class MSATransition(nn.Module):
    def __init__(self, c_m=20, n=2):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(c_m), nn.Linear(c_m, n * c_m), nn.ReLU(), nn.Linear(n * c_m, c_m))

    def forward(self, m):
        return self.net(m)


class MSAStack(nn.Module):
    def __init__(self, c_m=20, c_z=8, blocks=2):
        super().__init__()
        self.row = nn.ModuleList(MSARowAttentionWithPairBias(c_m, c_z) for _ in range(blocks))
        self.trans = nn.ModuleList(MSATransition(c_m) for _ in range(blocks))

    def forward(self, msa, pair, msa_mask=None):
        for row, trans in zip(self.row, self.trans):
            msa = msa + row(msa, pair, msa_mask)
            msa = msa + trans(msa)
        return msa
