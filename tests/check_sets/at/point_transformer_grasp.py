"""Point Transformer layer for 6-DoF grasp detection from depth point clouds."""
import torch
import torch.nn as nn


def knn(p, k):
    """p (B, N, 3) -> indices (B, N, k), the point itself included."""
    d = torch.cdist(p, p)
    return d.topk(k, largest=False).indices


def gather(x, idx):
    """x (B, N, C), idx (B, N, k) -> (B, N, k, C)"""
    B = x.size(0)
    return x[torch.arange(B, device=x.device).view(B, 1, 1), idx]


class VectorAttention(nn.Module):
    """y_i = sum_j softmax_j( gamma(phi(x_i) - psi(x_j) + delta_ij) ) * (alpha(x_j) + delta_ij)

    Vector attention (Zhao et al. 2021, eq. 3): a separate distribution over the
    neighbours for each group of channels. Subtraction, no dot product.
    """

    def __init__(self, dim, share=4, k=16):
        super().__init__()
        self.k, self.share = k, share
        self.phi = nn.Linear(dim, dim)
        self.psi = nn.Linear(dim, dim)
        self.alpha = nn.Linear(dim, dim)
        self.delta = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, dim))
        self.gamma = nn.Sequential(nn.ReLU(), nn.Linear(dim, dim // share), nn.ReLU(),
                                   nn.Linear(dim // share, dim // share))

    def forward(self, p, x):
        idx = knn(p, min(self.k, p.size(1)))
        pos = self.delta(p.unsqueeze(2) - gather(p, idx))
        rel = self.phi(x).unsqueeze(2) - gather(self.psi(x), idx) + pos
        w = self.gamma(rel).softmax(dim=2)                        # (B, N, k, C/share)
        v = gather(self.alpha(x), idx) + pos                      # (B, N, k, C)
        B, N, k, C = v.shape
        v = v.view(B, N, k, self.share, C // self.share)
        return (v * w.unsqueeze(3)).sum(dim=2).view(B, N, C)


class PTBlock(nn.Module):
    def __init__(self, dim, **kw):
        super().__init__()
        self.a, self.b = nn.Linear(dim, dim), nn.Linear(dim, dim)
        self.att = VectorAttention(dim, **kw)
        self.n1, self.n2, self.n3 = (nn.LayerNorm(dim) for _ in range(3))

    def forward(self, p, x):
        h = torch.relu(self.n1(self.a(x)))
        h = torch.relu(self.n2(self.att(p, h)))
        return torch.relu(x + self.n3(self.b(h)))


class GraspNet(nn.Module):
    """Per point: graspness, approach vector, in-plane angle (sin, cos), width."""

    def __init__(self, dim=32, depth=3):
        super().__init__()
        self.stem = nn.Linear(6, dim)
        self.blocks = nn.ModuleList(PTBlock(dim) for _ in range(depth))
        self.head = nn.Linear(dim, 1 + 3 + 2 + 1)

    def forward(self, xyz, normals):
        x = self.stem(torch.cat([xyz, normals], -1))
        for b in self.blocks:
            x = b(xyz, x)
        y = self.head(x)
        app = nn.functional.normalize(y[..., 1:4], dim=-1)
        ang = torch.atan2(y[..., 4], y[..., 5]) / 2
        return torch.sigmoid(y[..., 0]), app, ang, torch.sigmoid(y[..., 6]) * 0.08
