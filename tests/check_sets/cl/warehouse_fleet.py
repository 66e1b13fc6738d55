import torch
from torch import nn


class FleetEncoder(nn.Module):
    """Joint encoder for the robots of several warehouses.

    obs      (W, R, n_obs)  observation of each robot in each warehouse
    in_range (W, R, R) bool in_range[w, i, j]: robot i receives the radio messages of
             robot j. A robot always receives its own. Differs from warehouse to
             warehouse. Robot i must not use robots it doesn't receive.
    Returns (W, R, dim).
    """

    def __init__(self, n_obs=8, dim=24, heads=2, layers=2):
        super().__init__()
        self.heads = heads
        self.embed = nn.Sequential(nn.Linear(n_obs, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.attn = nn.ModuleList(nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def forward(self, obs, in_range):
        x = self.embed(obs)
        # MultiheadAttention takes True = not allowed, one (R, R) matrix per (warehouse, head)
        blocked = (~in_range).repeat(self.heads, 1, 1)
        for attn, norm in zip(self.attn, self.norm):
            y, _ = attn(x, x, x, attn_mask=blocked, need_weights=False)
            x = norm(x + y)
        return x


class FleetPolicy(nn.Module):
    """Action logits for every robot: stay, forward, left, right, lift."""

    def __init__(self, n_obs=8, dim=24):
        super().__init__()
        self.encoder = FleetEncoder(n_obs, dim)
        self.pi = nn.Linear(dim, 5)

    def forward(self, obs, in_range):
        return self.pi(self.encoder(obs, in_range))
