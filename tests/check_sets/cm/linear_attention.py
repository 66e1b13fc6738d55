"""Causal linear attention (Katharopoulos et al., 2020): phi(x) = elu(x) + 1."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class CausalLinearAttention(nn.Module):
    """out_i = phi(q_i) . sum_{j<=i} phi(k_j) v_j^T / (phi(q_i) . sum_{j<=i} phi(k_j))

    No softmax and no 1/sqrt(d): the kernel takes their place. x: (B, L, dim).
    With `state` (S, z) the sums go on from an earlier chunk; returns (out, state).
    """

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)

    def forward(self, x, state=None):
        B, L, D = x.shape
        q, k, v = self.in_proj(x).view(B, L, 3, self.heads, -1).unbind(2)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        S = torch.einsum("blhd,blhe->blhde", k, v).cumsum(1)
        z = k.cumsum(1)
        if state is not None:
            S = S + state[0][:, None]
            z = z + state[1][:, None]
        num = torch.einsum("blhd,blhde->blhe", q, S)
        den = torch.einsum("blhd,blhd->blh", q, z).clamp(min=1e-6)
        out = self.out_proj((num / den[..., None]).reshape(B, L, D))
        return out, (S[:, -1], z[:, -1])
