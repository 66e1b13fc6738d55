import torch
from torch import nn


class MultiScaleRetention(nn.Module):
    """RetNet's retention in its parallel form (Sun et al. 2023): (Q K^T * D) V with D_ij = gamma^(i - j) for j <= i and 0
    elsewhere.  There is no softmax: the decay takes its place, and the heads are normalised behind it.

    x (B, T, dim) -> (B, T, dim)
    """

    def __init__(self, dim=8, heads=2):
        super().__init__()
        self.heads = heads
        self.gamma = 1 - 2.0 ** (-5 - torch.arange(heads, dtype=torch.float64))
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.g_proj = nn.Linear(dim, dim, bias=False)
        self.group_norm = nn.LayerNorm(dim // heads, elementwise_affine=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def decay(self, T):
        i = torch.arange(T)
        gap = i[:, None] - i[None, :]
        return (self.gamma[:, None, None] ** gap.clamp(min=0)) * (gap >= 0)

    def forward(self, x):
        b, T, dim = x.shape
        q, k, v = (f(x).view(b, T, self.heads, -1).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        k = k * (dim // self.heads) ** -0.5
        retained = (q @ k.transpose(-1, -2) * self.decay(T).to(x.dtype)) @ v
        y = self.group_norm(retained).transpose(1, 2).reshape(b, T, dim)
        return self.out_proj(nn.functional.silu(self.g_proj(x)) * y)
