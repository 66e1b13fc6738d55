import torch
import torch.nn as nn


class GatedPairBiasAttention(nn.Module):
    """MSA row attention with pair bias (AlphaFold 2, algorithm 7): m (S, R, c_m), z (R, R, c_z) -> update of m."""

    def __init__(self, c_m=12, c_z=6, c=4, n_head=3):
        super().__init__()
        self.c, self.n_head = c, n_head
        self.layer_norm_m = nn.LayerNorm(c_m)
        self.layer_norm_z = nn.LayerNorm(c_z)
        self.linear_q = nn.Linear(c_m, c * n_head, bias=False)
        self.linear_k = nn.Linear(c_m, c * n_head, bias=False)
        self.linear_v = nn.Linear(c_m, c * n_head, bias=False)
        self.linear_b = nn.Linear(c_z, n_head, bias=False)
        self.linear_g = nn.Linear(c_m, c * n_head)
        self.linear_o = nn.Linear(c * n_head, c_m)

    def forward(self, m, z):
        m = self.layer_norm_m(m)
        split = lambda a: a.unflatten(-1, (self.n_head, self.c))
        q, k, v = split(self.linear_q(m)), split(self.linear_k(m)), split(self.linear_v(m))
        b = self.linear_b(self.layer_norm_z(z))
        g = torch.sigmoid(self.linear_g(m))
        logits = torch.einsum("sihc,sjhc->sijh", q / self.c ** 0.5, k) + b
        a = torch.softmax(logits, dim=-2)
        o = torch.einsum("sijh,sjhc->sihc", a, v).flatten(-2)
        return self.linear_o(g * o)
