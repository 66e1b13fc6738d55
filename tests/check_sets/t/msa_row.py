import torch
from torch import nn


class MSARowAttentionWithPairBias(nn.Module):
    def __init__(self, c_m, c_z, c_hidden=8, no_heads=4):
        super().__init__()
        self.h, self.c = no_heads, c_hidden
        self.layer_norm_m = nn.LayerNorm(c_m)
        self.layer_norm_z = nn.LayerNorm(c_z)
        self.linear_z = nn.Linear(c_z, no_heads, bias=False)
        self.linear_q = nn.Linear(c_m, no_heads * c_hidden, bias=False)
        self.linear_k = nn.Linear(c_m, no_heads * c_hidden, bias=False)
        self.linear_v = nn.Linear(c_m, no_heads * c_hidden, bias=False)
        self.linear_g = nn.Linear(c_m, no_heads * c_hidden)
        self.linear_o = nn.Linear(no_heads * c_hidden, c_m)

    def forward(self, m, z, mask=None):
        m = self.layer_norm_m(m)
        bias = self.linear_z(self.layer_norm_z(z)).permute(2, 0, 1)
        s, r, _ = m.shape
        q = self.linear_q(m).view(s, r, self.h, self.c) * self.c**-0.5
        k = self.linear_k(m).view(s, r, self.h, self.c)
        v = self.linear_v(m).view(s, r, self.h, self.c)
        a = torch.einsum("sihc,sjhc->shij", q, k) + bias
        if mask is not None:
            a.masked_fill(mask[:, None, None, :] == 0, torch.finfo(a.dtype).min)
        a = torch.softmax(a, dim=-1)
        o = torch.einsum("shij,sjhc->sihc", a, v)
        g = torch.sigmoid(self.linear_g(m)).view(s, r, self.h, self.c)
        return self.linear_o((g * o).reshape(s, r, -1))
