"""Morphology-agnostic locomotion policy: one token per limb, bodies have different limb counts."""
import torch
import torch.nn as nn


class LimbEncoder(nn.Module):
    """
    Args:
        obs:    (B, n_limbs, obs_dim), padded to the largest body
        absent: (B, n_limbs) bool, True where the body has no such limb
        parent: (B, n_limbs) long, index of the parent limb, the torso is its own parent
    Returns:
        joint torques in [-1, 1], (B, n_limbs); zero for absent limbs
    """

    def __init__(self, obs_dim=10, dim=32, heads=4, layers=2):
        super().__init__()
        self.heads = heads
        self.inp = nn.Linear(obs_dim, dim)
        self.mha = nn.ModuleList(
            [nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(layers)]
        )
        self.mlp = nn.ModuleList(
            [nn.Sequential(nn.Linear(dim, 2 * dim), nn.ELU(), nn.Linear(2 * dim, dim)) for _ in range(layers)]
        )
        self.n1 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        self.n2 = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])
        # one learned bonus per head for looking at the own parent
        self.parent_bonus = nn.Parameter(torch.full((heads,), 0.5))
        self.torque = nn.Linear(dim, 1)

    def bias(self, parent, absent):
        B, n = parent.shape
        is_parent = torch.nn.functional.one_hot(parent, n).to(self.parent_bonus.dtype)
        b = is_parent[:, None] * self.parent_bonus[None, :, None, None]
        b = b.masked_fill(absent[:, None, None, :], float("-inf"))
        # MHA wants (B * heads, n, n), the heads of one sample together
        return b.reshape(B * self.heads, n, n)

    def forward(self, obs, absent, parent):
        x = self.inp(obs)
        b = self.bias(parent, absent)
        for att, mlp, n1, n2 in zip(self.mha, self.mlp, self.n1, self.n2):
            y = n1(x)
            x = x + att(y, y, y, attn_mask=b, need_weights=False)[0]
            x = x + mlp(n2(x))
        tau = torch.tanh(self.torque(x)).squeeze(-1)
        return tau.masked_fill(absent, 0.0)
