import torch
import torch.nn as nn


def knn(xyz, k):
    d = torch.cdist(xyz, xyz)
    return d.topk(k, dim=-1, largest=False).indices      # B N k


def take(t, idx):
    # t B N C, idx B N k -> B N k C
    b = torch.arange(t.size(0), device=t.device)[:, None, None]
    return t[b, idx]


class PointLayer(nn.Module):
    """Vector attention on the k nearest neighbours of each point (Zhao et al. 2021):
    subtraction relation, position term in both branches, one weight per channel."""

    def __init__(self, c, k=8):
        super().__init__()
        self.k = k
        self.phi = nn.Linear(c, c)
        self.psi = nn.Linear(c, c)
        self.alpha = nn.Linear(c, c)
        self.pos = nn.Sequential(nn.Linear(3, c), nn.ReLU(), nn.Linear(c, c))
        self.rel = nn.Sequential(nn.Linear(c, c), nn.ReLU(), nn.Linear(c, c))

    def forward(self, xyz, f):
        idx = knn(xyz, min(self.k, xyz.size(1)))
        delta = self.pos(xyz.unsqueeze(2) - take(xyz, idx))
        r = self.phi(f).unsqueeze(2) - take(self.psi(f), idx) + delta
        w = self.rel(r).softmax(dim=2)
        v = take(self.alpha(f), idx) + delta
        return f + (w * v).sum(2)
