"""Gated attention unit (Hua et al. 2022, "Transformer Quality in Linear Time").

    u = silu(W_u x)   v = silu(W_v x)   z = silu(W_z x)
    q = z * gamma_0 + beta_0            k = z * gamma_1 + beta_1
    A = relu(q k^T / n + b)^2           n = number of keys (the length of x)
    y = x + W_o (u * (A v))             on the layer-normalised x

Queries and keys share the small projection z; the squared relu replaces the
softmax, rows of A do not sum to one and are not meant to.  A single head.
b is a learned bias by relative position j - i, clipped to +-(span - 1).

GatedAttentionUnit(dim, expand, s, span, causal)
    forward(x, real=None)
        x      (B, n, dim)
        real   (B, n) bool, True = real token; other keys get A = 0
        ->     (B, n, dim)
causal=True: A[i, j] = 0 for j > i.
"""
import torch
from torch import nn
from torch.nn.functional import silu


class GatedAttentionUnit(nn.Module):
    def __init__(self, dim, expand=2, s=32, span=64, causal=True):
        super().__init__()
        e = dim * expand
        self.norm = nn.LayerNorm(dim)
        self.w_u = nn.Linear(dim, e)
        self.w_v = nn.Linear(dim, e)
        self.w_z = nn.Linear(dim, s)
        self.w_o = nn.Linear(e, dim)
        self.gamma = nn.Parameter(torch.randn(2, s) * 0.02 + 1.0)
        self.beta = nn.Parameter(torch.zeros(2, s))
        self.rel = nn.Parameter(torch.zeros(2 * span - 1))
        self.span = span
        self.causal = causal

    def position_bias(self, n):
        i = torch.arange(n, device=self.rel.device)
        dist = (i[None, :] - i[:, None]).clamp(1 - self.span, self.span - 1)
        return self.rel[dist + self.span - 1]

    def forward(self, x, real=None):
        n = x.size(1)
        h = self.norm(x)
        u, v, z = silu(self.w_u(h)), silu(self.w_v(h)), silu(self.w_z(h))
        q, k = (z.unsqueeze(2) * self.gamma + self.beta).unbind(dim=2)

        A = torch.relu(torch.einsum("bis,bjs->bij", q, k) / n + self.position_bias(n)).square()
        if self.causal:
            A = A.tril()
        if real is not None:
            A = A * real[:, None, :].to(A.dtype)
        return x + self.w_o(u * torch.bmm(A, v))
