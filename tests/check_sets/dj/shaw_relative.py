"""Self-Attention with Relative Position Representations (Shaw, Uszkoreit, Vaswani 2018).

    e_ij = x_i W^Q (x_j W^K + a^K_ij)^T / sqrt(d_z)
    z_i  = sum_j alpha_ij (x_j W^V + a^V_ij)
    a^K_ij = w^K_{clip(j - i, k)},   a^V_ij = w^V_{clip(j - i, k)}
    clip(x, k) = max(-k, min(k, x))

The tables have 2k+1 rows; row 0 belongs to -k (k or more to the left of i), row 2k to
+k (to the right). They are shared by the heads. Tables are loaded from the tensor2tensor
export, which has that order.
"""
import torch
from torch import nn


class RelativeSelfAttention(nn.Module):
    """x (B, n, D), pad (B, n) bool with True = padding -> (B, n, D)"""

    def __init__(self, D=32, heads=4, k=3):
        super().__init__()
        self.heads, self.d, self.k = heads, D // heads, k
        self.W_Q = nn.Linear(D, D, bias=False)
        self.W_K = nn.Linear(D, D, bias=False)
        self.W_V = nn.Linear(D, D, bias=False)
        self.W_O = nn.Linear(D, D, bias=False)
        self.w_K = nn.Parameter(torch.randn(2 * k + 1, self.d) * 0.3)
        self.w_V = nn.Parameter(torch.randn(2 * k + 1, self.d) * 0.3)

    def rows(self, n, device):
        r = torch.arange(n, device=device)
        distance = r.view(-1, 1) - r.view(1, -1)
        return distance.clamp(-self.k, self.k) + self.k

    def forward(self, x, pad=None):
        B, n, D = x.shape
        q = self.W_Q(x).view(B, n, self.heads, self.d)
        key = self.W_K(x).view(B, n, self.heads, self.d)
        val = self.W_V(x).view(B, n, self.heads, self.d)
        rows = self.rows(n, x.device)
        a_K, a_V = self.w_K[rows], self.w_V[rows]                 # (n, n, d)

        e = torch.einsum("bihd,bjhd->bhij", q, key)
        e = e + torch.einsum("bihd,ijd->bhij", q, a_K)
        e = e / self.d ** 0.5
        if pad is not None:
            e = e.masked_fill(pad[:, None, None, :], -1e9)
        alpha = e.softmax(-1)
        z = torch.einsum("bhij,bjhd->bihd", alpha, val)
        z = z + torch.einsum("bhij,ijd->bihd", alpha, a_V)
        return self.W_O(z.reshape(B, n, D))
