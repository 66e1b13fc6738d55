"""Vector self-attention on point clouds (after Zhao et al., Point Transformer).

    y_i = sum_{j in kNN(i)} softmax_j( g(phi(x_i) - psi(x_j) + t_ij) ) * (alpha(x_j) + t_ij)
    t_ij = theta(p_i - p_j)

The block returns x + W y. The weights are per channel: every channel has its own distribution over the
neighbours. There is no 1/sqrt(d), subtraction takes the place of the dot product.
"""
import torch
from torch import nn


def knn(p, k):
    # p: B N 3 -> B N k (the point itself is always among its neighbours)
    return torch.cdist(p, p).topk(k, dim=-1, largest=False).indices


def take(t, idx):
    # t: B N C, idx: B N k -> B N k C
    b = torch.arange(t.shape[0], device=t.device)[:, None, None]
    return t[b, idx]


class PTVec(nn.Module):
    def __init__(self, c=16, k=6):
        super().__init__()
        self.k = k
        self.phi, self.psi, self.alpha = (nn.Linear(c, c) for _ in range(3))
        self.theta = nn.Sequential(nn.Linear(3, c), nn.ReLU(), nn.Linear(c, c))
        self.g = nn.Sequential(nn.Linear(c, c), nn.ReLU(), nn.Linear(c, c))
        self.out = nn.Linear(c, c)

    def forward(self, x, p):
        """x: features [B, N, C]; p: xyz [B, N, 3]."""
        idx = knn(p, min(self.k, p.shape[1]))
        t = self.theta(p.unsqueeze(2) - take(p, idx))
        e = self.g(self.phi(x).unsqueeze(2) - take(self.psi(x), idx) + t)
        w = e.softmax(dim=2)
        y = (w * (take(self.alpha(x), idx) + t)).sum(2)
        return x + self.out(y)
