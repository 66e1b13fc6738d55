"""MSA row-wise gated self attention with pair bias (Algorithm 7 of the AF2 supplement).

m    : [*, S, R, c_m]   MSA representation, S sequences of R residues
z    : [*, R, R, c_z]   pair representation
mask : [*, S, R]        1 for residues that exist, 0 for gaps / cropping padding
"""
import torch
import torch.nn as nn


def permute_final_dims(t, inds):
    zero = -len(inds)
    first = list(range(t.dim() + zero))
    return t.permute(first + [len(first) + i for i in inds])


class Transition(nn.Module):
    def __init__(self, c, n=4):
        super().__init__()
        self.norm = nn.LayerNorm(c)
        self.up = nn.Linear(c, n * c)
        self.down = nn.Linear(n * c, c)

    def forward(self, x):
        return self.down(torch.relu(self.up(self.norm(x))))


class GatedAttention(nn.Module):
    def __init__(self, c_in, c_hidden, no_heads, inf=1e9):
        super().__init__()
        self.c_hidden, self.no_heads, self.inf = c_hidden, no_heads, inf
        self.to_q = nn.Linear(c_in, c_hidden * no_heads, bias=False)
        self.to_k = nn.Linear(c_in, c_hidden * no_heads, bias=False)
        self.to_v = nn.Linear(c_in, c_hidden * no_heads, bias=False)
        self.gate = nn.Linear(c_in, c_hidden * no_heads)
        self.out = nn.Linear(c_hidden * no_heads, c_in)

    def _heads(self, t):
        return t.view(*t.shape[:-1], self.no_heads, -1).transpose(-2, -3)

    def forward(self, x, biases):
        q = self._heads(self.to_q(x)) * self.c_hidden ** -0.5
        k = self._heads(self.to_k(x))
        v = self._heads(self.to_v(x))
        a = torch.matmul(q, permute_final_dims(k, (1, 0)))
        for b in biases:
            a = a + b
        a = torch.softmax(a, dim=-1)
        o = torch.matmul(a, v).transpose(-2, -3)
        g = torch.sigmoid(self.gate(x)).view(*x.shape[:-1], self.no_heads, -1)
        o = (o * g).reshape(*x.shape[:-1], -1)
        return self.out(o)


class MSARowAttentionWithPairBias(nn.Module):
    def __init__(self, c_m=64, c_z=32, c_hidden=16, no_heads=4, inf=1e9):
        super().__init__()
        self.inf = inf
        self.norm_m = nn.LayerNorm(c_m)
        self.norm_z = nn.LayerNorm(c_z)
        self.linear_z = nn.Linear(c_z, no_heads, bias=False)
        self.mha = GatedAttention(c_m, c_hidden, no_heads, inf)

    def forward(self, m, z, mask=None):
        if mask is None:
            mask = m.new_ones(m.shape[:-1])
        m = self.norm_m(m)
        # [*, S, 1, 1, R]
        mask_bias = (self.inf * (mask - 1))[..., :, None, None, :]
        # [*, 1, H, R, R]
        pair = permute_final_dims(self.linear_z(self.norm_z(z)), (2, 0, 1)).unsqueeze(-4)
        return self.mha(m, [mask_bias, pair])


class OuterProductMean(nn.Module):
    def __init__(self, c_m, c_z, c=8):
        super().__init__()
        self.norm = nn.LayerNorm(c_m)
        self.a, self.b = nn.Linear(c_m, c), nn.Linear(c_m, c)
        self.o = nn.Linear(c * c, c_z)

    def forward(self, m, mask):
        m = self.norm(m)
        a, b = self.a(m) * mask[..., None], self.b(m) * mask[..., None]
        o = torch.einsum("...sic,...sjd->...ijcd", a, b).flatten(-2)
        n = torch.einsum("...si,...sj->...ij", mask, mask)[..., None]
        return self.o(o) / (n + 1e-3)


class TinyEvoBlock(nn.Module):
    def __init__(self, c_m=64, c_z=32):
        super().__init__()
        self.row = MSARowAttentionWithPairBias(c_m, c_z)
        self.trans = Transition(c_m)
        self.opm = OuterProductMean(c_m, c_z)

    def forward(self, m, z, mask):
        m = m + self.row(m, z, mask)
        m = m + self.trans(m)
        return m, z + self.opm(m, mask)
