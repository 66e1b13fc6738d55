import torch
from torch import nn


class HaloNeighbours(nn.Module):
    """Vector attention among the n nearest tracers of a simulation snapshot.

    positions (B, P, 3), traits (B, P, C) -> (B, P, C).  Each channel has its own
    weights over the n neighbours (the particle itself is one of them); the
    relation is a learned function of the difference, so no dot product appears.
    """

    def __init__(self, channels=10, n=4, hidden=16):
        super().__init__()
        self.n = n
        self.phi = nn.Linear(channels, channels)
        self.psi = nn.Linear(channels, channels)
        self.alpha = nn.Linear(channels, channels)
        self.delta = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, channels))
        self.gamma = nn.Sequential(nn.Linear(channels, hidden), nn.ReLU(), nn.Linear(hidden, channels))

    @staticmethod
    def _pick(t, idx):
        B, P, n = idx.shape
        flat = idx.reshape(B, P * n, 1).expand(-1, -1, t.shape[-1])
        return t.gather(1, flat).view(B, P, n, -1)

    def forward(self, positions, traits):
        far = torch.cdist(positions, positions, compute_mode="donot_use_mm_for_euclid_dist")
        idx = far.topk(min(self.n, far.shape[-1]), dim=-1, largest=False).indices
        step = self.delta(positions.unsqueeze(2) - self._pick(positions, idx))
        rel = self.gamma(self.phi(traits).unsqueeze(2) - self._pick(self.psi(traits), idx) + step)
        w = torch.softmax(rel, dim=2)
        return (w * (self._pick(self.alpha(traits), idx) + step)).sum(2)
