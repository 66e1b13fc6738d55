import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class GatedRowAttention(nn.Module):
    r"""MSA row-wise gated self-attention with pair bias (Alg. 7 of the AF2 supplement)

    m : [*, S, R, c_m]  MSA representation
    z : [*, R, R, c_z]  pair representation
    msa_mask : [*, S, R] 1 for real residues
    """

    def __init__(self, c_m, c_z, c_hidden=32, no_heads=8, inf=1e9):
        super().__init__()
        self.c_hidden, self.no_heads, self.inf = c_hidden, no_heads, inf
        self.layer_norm_m = nn.LayerNorm(c_m)
        self.layer_norm_z = nn.LayerNorm(c_z)
        self.linear_z = nn.Linear(c_z, no_heads, bias=False)
        hc = c_hidden * no_heads
        self.linear_q = nn.Linear(c_m, hc, bias=False)
        self.linear_k = nn.Linear(c_m, hc, bias=False)
        self.linear_v = nn.Linear(c_m, hc, bias=False)
        self.linear_g = nn.Linear(c_m, hc)
        self.linear_o = nn.Linear(hc, c_m)
        nn.init.zeros_(self.linear_g.weight)
        nn.init.ones_(self.linear_g.bias)

    def _prep_qkv(self, m):
        shp = m.shape[:-1] + (self.no_heads, self.c_hidden)
        q = self.linear_q(m).view(shp).transpose(-2, -3)   # [*, S, H, R, C]
        k = self.linear_k(m).view(shp).transpose(-2, -3)
        v = self.linear_v(m).view(shp).transpose(-2, -3)
        return q / math.sqrt(self.c_hidden), k, v

    def forward(self, m, z, msa_mask=None):
        m = self.layer_norm_m(m)
        if msa_mask is None:
            msa_mask = m.new_ones(m.shape[:-1])
        # [*, S, 1, 1, R]
        mask_bias = (self.inf * (msa_mask - 1))[..., None, None, :]
        # [*, 1, H, R, R]
        pair_bias = self.linear_z(self.layer_norm_z(z)).permute(0, 3, 1, 2).unsqueeze(1)

        q, k, v = self._prep_qkv(m)
        a = torch.einsum("...qc,...kc->...qk", q, k)
        a = a + mask_bias + pair_bias
        a = F.softmax(a, dim=-1)
        o = torch.einsum("...qk,...kc->...qc", a, v)

        # flatten the heads
        o = o.contiguous().view(m.shape[:-1] + (self.no_heads * self.c_hidden,))
        g = torch.sigmoid(self.linear_g(m))
        return self.linear_o(o * g)


class MSATransition(nn.Module):
    def __init__(self, c_m, n=4):
        super().__init__()
        self.ln = nn.LayerNorm(c_m)
        self.up = nn.Linear(c_m, n * c_m)
        self.down = nn.Linear(n * c_m, c_m)

    def forward(self, m):
        return self.down(torch.relu(self.up(self.ln(m))))
