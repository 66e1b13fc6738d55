"""MSA stack of the fold model: row attention with pair bias, column attention.

msa   [S, R, c_m]    S sequences, R residues
pair  [R, R, c_z]    pair[i, j]: what residue i should know about residue j.  NOT symmetric.
mask  [S, R]         1 = residue present in this sequence (else gap padding)

Row attention (suppl. algorithm 7): for sequence s, query residue i and key residue j
    a_sij = softmax_j( q_si . k_sj / sqrt(c) + b_ij ),      b_ij = Linear(LayerNorm(pair[i, j]))
    o_si  = sigmoid(gate_si) * sum_j a_sij v_sj
"""
import torch
from torch import nn


class GatedHeads(nn.Module):
    """projections and gating that both directions share (each instance has its own weights)"""

    def __init__(self, c_m, c, heads):
        super().__init__()
        self.c, self.heads = c, heads
        self.norm = nn.LayerNorm(c_m)
        self.q = nn.Linear(c_m, c * heads, bias=False)
        self.k = nn.Linear(c_m, c * heads, bias=False)
        self.v = nn.Linear(c_m, c * heads, bias=False)
        self.gate = nn.Linear(c_m, c * heads)
        self.out = nn.Linear(c * heads, c_m)

    def project(self, m):
        m = self.norm(m)
        f = lambda lin: lin(m).unflatten(-1, (self.heads, self.c))
        return f(self.q) * self.c ** -0.5, f(self.k), f(self.v), torch.sigmoid(self.gate(m))

    @staticmethod
    def bias_from(mask):
        return torch.where(mask.bool(), 0.0, torch.finfo(torch.float32).min)


class MSARowAttentionWithPairBias(GatedHeads):
    def __init__(self, c_m, c_z, c=32, heads=8):
        super().__init__(c_m, c, heads)
        self.norm_z = nn.LayerNorm(c_z)
        self.pair_bias = nn.Linear(c_z, heads, bias=False)

    def forward(self, msa, pair, mask):
        q, k, v, g = self.project(msa)
        b = self.pair_bias(self.norm_z(pair)).permute(2, 1, 0)
        a = torch.einsum("sihc,sjhc->shij", q, k) + b[None]
        a = a + self.bias_from(mask)[:, None, None, :]
        a = torch.softmax(a, dim=-1)
        o = torch.einsum("shij,sjhc->sihc", a, v).flatten(-2)
        return self.out(g * o)


class MSAColumnAttention(GatedHeads):
    def forward(self, msa, mask):
        q, k, v, g = self.project(msa)
        a = torch.einsum("sihc,tihc->ihst", q, k)
        a = a + self.bias_from(mask.T)[:, None, None, :]
        a = torch.softmax(a, dim=-1)
        return self.out(g * torch.einsum("ihst,tihc->sihc", a, v).flatten(-2))


class Transition(nn.Module):
    def __init__(self, c, n=4):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(c), nn.Linear(c, n * c), nn.ReLU(), nn.Linear(n * c, c))

    def forward(self, x):
        return self.net(x)


class OuterProductMean(nn.Module):
    def __init__(self, c_m, c_z, c=16):
        super().__init__()
        self.norm = nn.LayerNorm(c_m)
        self.left, self.right = nn.Linear(c_m, c), nn.Linear(c_m, c)
        self.out = nn.Linear(c * c, c_z)

    def forward(self, msa, mask):
        m = self.norm(msa)
        a, b = self.left(m) * mask[..., None], self.right(m) * mask[..., None]
        o = torch.einsum("sic,sjd->ijcd", a, b).flatten(-2)
        n = torch.einsum("si,sj->ij", mask, mask)[..., None]
        return self.out(o) / (n + 1e-3)


class MSABlock(nn.Module):
    def __init__(self, c_m=64, c_z=32, heads=4, c=16):
        super().__init__()
        self.row = MSARowAttentionWithPairBias(c_m, c_z, c, heads)
        self.col = MSAColumnAttention(c_m, c, heads)
        self.trans = Transition(c_m)
        self.opm = OuterProductMean(c_m, c_z)
        self.pair_trans = Transition(c_z)

    def forward(self, msa, pair, mask):
        msa = msa + self.row(msa, pair, mask)
        msa = msa + self.col(msa, mask)
        msa = msa + self.trans(msa)
        pair = pair + self.opm(msa, mask)
        return msa, pair + self.pair_trans(pair)


def relpos(index, c_max=32):
    """one hot of the clipped residue distance i - j -> [R, R, 2 c_max + 1]"""
    d = (index[:, None] - index[None, :]).clamp(-c_max, c_max) + c_max
    return nn.functional.one_hot(d, 2 * c_max + 1).float()
