"""Tree species from airborne lidar: point transformer layer (vector attention).

PointLayer(dim, k)(xyz, feat):
    xyz   [B, N, 3]   metres
    feat  [B, N, dim]
    returns [B, N, dim]

For each point i and its k nearest neighbours j (the point itself included):
    delta_ij = theta(xyz_i - xyz_j)
    a_ij     = gamma( phi(x_i) - psi(x_j) + delta_ij )      a VECTOR of dim numbers
    y_i      = sum_j softmax_j(a_ij) * (alpha(x_j) + delta_ij)
so every channel has its own weights over the k neighbours.  There is no dot product
and (as in the paper) no temperature.
"""
import torch
from torch import nn


def knn(xyz, k):
    """[B, N, 3] -> indices [B, N, k] of the k nearest points"""
    return torch.cdist(xyz, xyz).topk(k, dim=-1, largest=False).indices


def gather(t, idx):
    """t [B, N, C], idx [B, N, k] -> [B, N, k, C]"""
    B, N, k = idx.shape
    flat = idx.reshape(B, N * k, 1).expand(-1, -1, t.size(-1))
    return t.gather(1, flat).view(B, N, k, t.size(-1))


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, o), nn.ReLU(), nn.Linear(o, o))


class PointLayer(nn.Module):
    def __init__(self, dim, k=8):
        super().__init__()
        self.k = k
        self.phi = nn.Linear(dim, dim)
        self.psi = nn.Linear(dim, dim)
        self.alpha = nn.Linear(dim, dim)
        self.theta = mlp(3, dim)
        self.gamma = mlp(dim, dim)

    def forward(self, xyz, feat):
        idx = knn(xyz, min(self.k, xyz.size(1)))
        delta = self.theta(xyz[:, :, None] - gather(xyz, idx))
        rel = self.phi(feat)[:, :, None] - gather(self.psi(feat), idx) + delta
        w = torch.softmax(self.gamma(rel), dim=2)
        return (w * (gather(self.alpha(feat), idx) + delta)).sum(dim=2)
