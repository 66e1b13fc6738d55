"""MSA row attention with pair bias, after the Evoformer.

msa  (B, S, L, c_m)    pair (B, L, L, c_z)    msa_mask (B, S, L) 1 = residue, 0 = gap/pad
"""
import math
import torch
import torch.nn as nn


class LinearNoBias(nn.Linear):
    def __init__(self, a, b, init='glorot'):
        super().__init__(a, b, bias=False)
        if init == 'gate':
            nn.init.normal_(self.weight, std=0.1)


class MSARowAttentionWithPairBias(nn.Module):
    def __init__(self, c_m=24, c_z=12, c_hidden=8, n_heads=4, inf=1e9):
        super().__init__()
        self.c_hidden, self.n_heads, self.inf = c_hidden, n_heads, inf
        self.norm_m = nn.LayerNorm(c_m)
        self.norm_z = nn.LayerNorm(c_z)
        hd = c_hidden * n_heads
        self.q = LinearNoBias(c_m, hd)
        self.k = LinearNoBias(c_m, hd)
        self.v = LinearNoBias(c_m, hd)
        self.b = LinearNoBias(c_z, n_heads)
        self.g = nn.Linear(c_m, hd)
        self.o = nn.Linear(hd, c_m)

    def _heads(self, t):
        # (B, S, L, h*c) -> (B, S, h, L, c)
        return t.view(*t.shape[:-1], self.n_heads, self.c_hidden).transpose(-2, -3)

    def forward(self, msa, pair, msa_mask=None):
        B, S, L, _ = msa.shape
        m = self.norm_m(msa)
        q, k, v = self._heads(self.q(m)), self._heads(self.k(m)), self._heads(self.v(m))
        q = q / math.sqrt(self.c_hidden)
        a = torch.matmul(q, k.transpose(-1, -2))
        a = a + self.b(self.norm_z(pair)).permute(0, 3, 1, 2).unsqueeze(1)
        if msa_mask is not None:
            a = a + (self.inf * (msa_mask - 1))[:, :, None, None, :]
        a = torch.softmax(a, dim=-1)
        o = torch.matmul(a, v)
        o = o.reshape(B, S, L, self.n_heads * self.c_hidden)
        o = o * torch.sigmoid(self.g(m))
        return self.o(o)


class OuterProductMean(nn.Module):
    def __init__(self, c_m, c_z, c=6):
        super().__init__()
        self.ln, self.a, self.b = nn.LayerNorm(c_m), nn.Linear(c_m, c), nn.Linear(c_m, c)
        self.out = nn.Linear(c * c, c_z)

    def forward(self, msa, mask=None):
        m = self.ln(msa)
        w = msa.new_ones(msa.shape[:-1]) if mask is None else mask
        a, b = self.a(m) * w[..., None], self.b(m) * w[..., None]
        x = torch.einsum('bsic,bsjd->bijcd', a, b).flatten(-2)
        n = torch.einsum('bsi,bsj->bij', w, w)[..., None]
        return self.out(x) / (n + 1e-3)


class Transition(nn.Sequential):
    def __init__(self, c, n=2):
        super().__init__(nn.LayerNorm(c), nn.Linear(c, n * c), nn.ReLU(), nn.Linear(n * c, c))


class MiniEvoformer(nn.Module):
    def __init__(self, c_m=24, c_z=12, blocks=2):
        super().__init__()
        self.row = nn.ModuleList([MSARowAttentionWithPairBias(c_m, c_z) for _ in range(blocks)])
        self.mt = nn.ModuleList([Transition(c_m) for _ in range(blocks)])
        self.opm = nn.ModuleList([OuterProductMean(c_m, c_z) for _ in range(blocks)])

    def forward(self, msa, pair, msa_mask=None):
        for r, t, o in zip(self.row, self.mt, self.opm):
            msa = msa + r(msa, pair, msa_mask)
            msa = msa + t(msa)
            pair = pair + o(msa, msa_mask)
        return msa, pair
