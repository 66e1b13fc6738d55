import torch
import torch.nn as nn


def nearest(xyz, k):
    d = torch.cdist(xyz, xyz, compute_mode="donot_use_mm_for_euclid_dist")
    return d.topk(k, largest=False).indices


def pick(feat, idx):
    b = torch.arange(feat.shape[0], device=feat.device)[:, None, None]
    return feat[b, idx]


class CurbPoints(nn.Module):
    """Vector attention for street-scan points (one weight per channel, not per head).

    xyz (B, N, 3), feat (B, N, F). Every point reads its k nearest points, itself included.
    The weights are an MLP of (own - neighbour + offset code), normalised over the neighbours.
    """

    def __init__(self, F=12, k=5):
        super().__init__()
        self.k = k
        self.me, self.them, self.cargo = (nn.Linear(F, F, bias=False) for _ in range(3))
        self.where = nn.Sequential(nn.Linear(3, F), nn.ReLU(), nn.Linear(F, F))
        self.weigh = nn.Sequential(nn.Linear(F, F), nn.ReLU(), nn.Linear(F, F))

    def forward(self, xyz, feat):
        idx = nearest(xyz, min(self.k, xyz.shape[1]))
        delta = self.where(xyz.unsqueeze(2) - pick(xyz, idx))
        w = self.weigh(self.me(feat).unsqueeze(2) - pick(self.them(feat), idx) + delta)
        w = torch.softmax(w, dim=2)
        return (w * (pick(self.cargo(feat), idx) + delta)).sum(2)
