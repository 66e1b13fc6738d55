import torch
import torch.nn as nn


class PointVectorAttention(nn.Module):
    """
    Vector self-attention over the k nearest points (Point Transformer, Zhao et al. 2021):

        y_i = sum_j  rho( gamma( phi(x_i) - psi(x_j) + delta_ij ) ) * ( alpha(x_j) + delta_ij )

    rho normalises every channel separately over the neighbours j, and
    delta_ij = theta(p_i - p_j).  The subtraction relation carries no 1/sqrt(d).
    """

    def __init__(self, dim, k=6):
        super().__init__()
        self.k = k
        self.phi = nn.Linear(dim, dim)
        self.psi = nn.Linear(dim, dim)
        self.alpha = nn.Linear(dim, dim)
        self.theta = nn.Sequential(nn.Linear(3, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.gamma = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))

    @staticmethod
    def gather(t, idx):
        B, N, k = idx.shape
        flat = idx.reshape(B, N * k, 1).expand(-1, -1, t.size(-1))
        return t.gather(1, flat).view(B, N, k, -1)

    def forward(self, xyz, feat):
        """xyz (B, N, 3), feat (B, N, dim) -> (B, N, dim); N >= k."""
        idx = torch.cdist(xyz, xyz).topk(self.k, largest=False).indices
        q = self.phi(feat).unsqueeze(2)
        k = self.gather(self.psi(feat), idx)
        v = self.gather(self.alpha(feat), idx)
        delta = self.theta(xyz.unsqueeze(2) - self.gather(xyz, idx))
        w = self.gamma(q - k + delta).softmax(dim=2)
        return (w * (v + delta)).sum(dim=2)
