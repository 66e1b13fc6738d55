import torch
from torch import nn


class ArmPolicy(nn.Module):
    """Robot arm: a window of sensor readings -> next joint velocities.

    obs (B, T, n_obs), one row per time step; robots in a batch have nothing to do with each other.
    """

    def __init__(self, n_obs, n_joints, d=64, n_head=4, n_layer=2):
        super().__init__()
        self.inp = nn.Linear(n_obs, d)
        self.time = nn.Parameter(torch.randn(1, 256, d) * 0.1)
        self.norms = nn.ModuleList(nn.LayerNorm(d) for _ in range(2 * n_layer))
        self.mix = nn.ModuleList(nn.MultiheadAttention(d, n_head) for _ in range(n_layer))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(d, 2 * d), nn.SiLU(), nn.Linear(2 * d, d)) for _ in range(n_layer)
        )
        self.joints = nn.Linear(d, n_joints)

    def forward(self, obs):
        T = obs.shape[1]
        x = self.inp(obs) + self.time[:, :T]
        for i, (mix, ff) in enumerate(zip(self.mix, self.ff)):
            z = self.norms[2 * i](x)
            x = x + mix(z, z, z, need_weights=False)[0]
            x = x + ff(self.norms[2 * i + 1](x))
        return torch.tanh(self.joints(x[:, -1]))
