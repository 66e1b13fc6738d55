from typing import Optional

import torch
from torch import nn


class GatedAttention(nn.Module):
    """Algorithm 7 kernel: heads over the channel, gate from the query input, additive biases.

    q_x   [*, Q, c],  kv_x [*, K, c]
    biases: list of tensors that broadcast to [*, H, Q, K]
    """

    def __init__(self, c_in, c_hidden, heads, inf=1e9):
        super().__init__()
        self.c_hidden, self.heads, self.inf = c_hidden, heads, inf
        self.linear_q = nn.Linear(c_in, c_hidden * heads, bias=False)
        self.linear_k = nn.Linear(c_in, c_hidden * heads, bias=False)
        self.linear_v = nn.Linear(c_in, c_hidden * heads, bias=False)
        self.linear_g = nn.Linear(c_in, c_hidden * heads)
        self.linear_o = nn.Linear(c_hidden * heads, c_in)

    def forward(self, q_x, kv_x, biases=()):
        shp = lambda t: t.unflatten(-1, (self.heads, self.c_hidden))
        q = shp(self.linear_q(q_x)) / self.c_hidden ** 0.5
        k = shp(self.linear_k(kv_x))
        v = shp(self.linear_v(kv_x))
        a = torch.einsum("...qhc,...khc->...hqk", q, k)
        for b in biases:
            a = a + b
        a = torch.softmax(a, dim=-1)
        o = torch.einsum("...hqk,...khc->...qhc", a, v)
        o = o * torch.sigmoid(shp(self.linear_g(q_x)))
        return self.linear_o(o.flatten(-2))


class MSARowAttentionWithPairBias(nn.Module):
    """m [B, S, R, c_m], z [B, R, R, c_z], mask [B, S, R] (1 = residue present).

    All rows of the alignment share the pair bias b_ij = Linear(LayerNorm(z_ij)).
    """

    def __init__(self, c_m, c_z, c_hidden, heads, inf=1e9):
        super().__init__()
        self.ln_m = nn.LayerNorm(c_m)
        self.ln_z = nn.LayerNorm(c_z)
        self.to_bias = nn.Linear(c_z, heads, bias=False)
        self.mha = GatedAttention(c_m, c_hidden, heads)
        self.inf = inf

    def forward(self, m, z, mask: Optional[torch.Tensor] = None, chunk: Optional[int] = None):
        m = self.ln_m(m)
        pair = self.to_bias(self.ln_z(z)).permute(0, 3, 1, 2).unsqueeze(1)      # B, 1, H, R, R
        if mask is None:
            mask = m.new_ones(m.shape[:-1])
        seq = (self.inf * (mask - 1))[:, :, None, None, :]                      # B, S, 1, 1, R
        if chunk is None:
            return self.mha(m, m, [seq, pair])
        rows = [self.mha(m[:, i:i + chunk], m[:, i:i + chunk], [seq[:, i:i + chunk], pair])
                for i in range(0, m.size(1), chunk)]
        return torch.cat(rows, dim=1)


class MSAColumnAttention(nn.Module):
    def __init__(self, c_m, c_hidden, heads, inf=1e9):
        super().__init__()
        self.ln_m = nn.LayerNorm(c_m)
        self.mha = GatedAttention(c_m, c_hidden, heads)
        self.inf = inf

    def forward(self, m, mask=None):
        m = self.ln_m(m).transpose(1, 2)
        b = []
        if mask is not None:
            b = [(self.inf * (mask.transpose(1, 2) - 1))[:, :, None, None, :]]
        return self.mha(m, m, b).transpose(1, 2)
