"""Policy memory of the drone: causal attention over everything seen in the flight, fed one
or several observations at a time."""
import torch
from torch import nn
import torch.nn.functional as F


class FlightMemory(nn.Module):
    """
    reset() before a flight; then forward(obs) with obs (B, n, dim) in order of time. The
    output of an observation depends on it and on all earlier ones of this flight, and
    doesn't depend on how the flight is cut into calls.
    """

    def __init__(self, dim=24, heads=3):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(dim, dim)
        self.kv = nn.Linear(dim, 2 * dim)
        self.o = nn.Linear(dim, dim)
        self.reset()

    def reset(self):
        self.past_k = None
        self.past_v = None

    def forward(self, obs):
        B, n, D = obs.shape
        q = self.q(obs).view(B, n, self.heads, -1).transpose(1, 2)
        k, v = self.kv(obs).view(B, n, 2, self.heads, -1).permute(2, 0, 3, 1, 4)
        if self.past_k is not None:
            k = torch.cat([self.past_k, k], dim=2)
            v = torch.cat([v, self.past_v], dim=2)
        self.past_k, self.past_v = k.detach(), v.detach()
        total = k.shape[2]
        mask = torch.ones(n, total, dtype=torch.bool, device=obs.device).tril(total - n)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o(y.transpose(1, 2).reshape(B, n, D))


class DronePolicy(nn.Module):
    """Roll, pitch, yaw rate and thrust in [-1, 1] for every observation."""

    def __init__(self, n_obs=12, dim=24):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(n_obs, dim), nn.ELU())
        self.memory = FlightMemory(dim)
        self.act = nn.Linear(dim, 4)

    def forward(self, obs, new_flight=False):
        if new_flight:
            self.memory.reset()
        h = self.enc(obs)
        return torch.tanh(self.act(h + self.memory(h)))
