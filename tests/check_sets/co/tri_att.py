"""Triangle self-attention around the starting node (AlphaFold 2 supplement, algorithm 13)."""
import torch
import torch.nn as nn


class TriangleStart(nn.Module):
    """
    pair: [*, n, n, c_z] pair representation z_ij
    present: [*, n, n], 1 for real residue pairs, 0 for padding; outputs of padded pairs are zero

    a_ijk = softmax_k( q_ij . k_ik / sqrt(c) + b_jk ),   o_ij = g_ij * sum_k a_ijk v_ik
    """

    def __init__(self, c_z=24, c=8, n_head=3):
        super().__init__()
        self.c, self.n_head = c, n_head
        self.norm = nn.LayerNorm(c_z)
        self.edge_q = nn.Linear(c_z, c * n_head, bias=False)
        self.edge_k = nn.Linear(c_z, c * n_head, bias=False)
        self.edge_v = nn.Linear(c_z, c * n_head, bias=False)
        self.third_edge = nn.Linear(c_z, n_head, bias=False)
        self.valve = nn.Linear(c_z, c * n_head)
        self.leave = nn.Linear(c * n_head, c_z)
        nn.init.ones_(self.valve.bias)

    def forward(self, pair, present=None):
        z = self.norm(pair)
        n = z.shape[-2]

        def per_head(t):
            return t.reshape(*t.shape[:-1], self.n_head, self.c)

        q = per_head(self.edge_q(z)) * self.c ** -0.5   # [*, i, j, h, c]
        k = per_head(self.edge_k(z))                    # [*, i, k, h, c]
        v = per_head(self.edge_v(z))
        g = torch.sigmoid(per_head(self.valve(z)))

        logits = torch.einsum("...ijhc,...ikhc->...ihjk", q, k)
        b = torch.einsum("...jkh->...hjk", self.third_edge(z))
        logits = logits + b.unsqueeze(-4)
        if present is not None:
            hide = present[..., :, None, None, :] == 0
            logits = logits.masked_fill(hide, torch.finfo(logits.dtype).min)
        a = logits.softmax(dim=-1)
        o = g * torch.einsum("...ihjk,...ikhc->...ijhc", a, v)
        out = self.leave(o.reshape(*o.shape[:-2], self.n_head * self.c))
        if present is not None:
            out = out * present[..., None].to(out.dtype)
        return out
