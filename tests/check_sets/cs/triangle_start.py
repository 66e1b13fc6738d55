"""Triangle self-attention around the starting node (AlphaFold 2, Algorithm 13)."""
import torch
import torch.nn as nn


class TriangleAttentionStartingNode(nn.Module):
    def __init__(self, c_z, c_hidden=8, n_head=2):
        super().__init__()
        self.c, self.h = c_hidden, n_head
        self.norm = nn.LayerNorm(c_z)
        self.linear_q = nn.Linear(c_z, c_hidden * n_head, bias=False)
        self.linear_k = nn.Linear(c_z, c_hidden * n_head, bias=False)
        self.linear_v = nn.Linear(c_z, c_hidden * n_head, bias=False)
        self.linear_b = nn.Linear(c_z, n_head, bias=False)
        self.linear_g = nn.Linear(c_z, c_hidden * n_head)
        self.linear_o = nn.Linear(c_hidden * n_head, c_z)

    def forward(self, z):
        """z: pair representation [N, N, c_z] -> update [N, N, c_z].

        a_ijk = softmax_k( q_ij . k_ik / sqrt(c) + b_jk );  o_ij = g_ij * sum_k a_ijk v_ik
        """
        z = self.norm(z)
        n = z.shape[0]
        q = self.linear_q(z).view(n, n, self.h, self.c)
        k = self.linear_k(z).view(n, n, self.h, self.c)
        v = self.linear_v(z).view(n, n, self.h, self.c)
        b = self.linear_b(z).permute(2, 0, 1)                  # [h, j, k]
        g = torch.sigmoid(self.linear_g(z))
        a = torch.einsum("ijhc,ikhc->ihjk", q, k) / self.c ** 0.5 + b.unsqueeze(0)
        a = torch.softmax(a, dim=-1)
        o = torch.einsum("ihjk,ikhc->ijhc", a, v).reshape(n, n, -1)
        return self.linear_o(g * o)
