"""Vector attention over k nearest neighbours (Point Transformer).

    y_i = sum_j softmax_j( gamma(phi(x_i) - psi(x_j) + delta_ij) ) * (alpha(x_j) + delta_ij)

j runs over the k nearest points of i (i itself is its own nearest).  The softmax is taken
over the *neighbours*, separately in every channel group: the weight is a vector, hence
there is no dot product and no 1/sqrt(d).

xyz   (B, N, 3)   coordinates
feat  (B, N, C)   features
valid (B, N)      bool, True = real point.  At least k real points per cloud;
                  output rows of unreal points are zero.
"""
import torch
import torch.nn as nn


def take(x, idx):
    """x (B, N, C), idx (B, N, k) -> (B, N, k, C)"""
    b = torch.arange(x.size(0), device=x.device)[:, None, None]
    return x[b, idx]


class PointTransformerLayer(nn.Module):
    def __init__(self, C, k=16, groups=4):
        super().__init__()
        self.k, self.groups = k, groups
        self.phi, self.psi, self.alpha = nn.Linear(C, C), nn.Linear(C, C), nn.Linear(C, C)
        self.delta = nn.Sequential(nn.Linear(3, C), nn.ReLU(), nn.Linear(C, C))
        self.gamma = nn.Sequential(nn.Linear(C, C), nn.ReLU(), nn.Linear(C, groups))

    def neighbours(self, xyz, valid):
        dist = torch.cdist(xyz, xyz)
        dist = dist.masked_fill(~valid[:, None, :], float("inf"))
        return dist.topk(self.k, dim=-1, largest=False).indices

    def forward(self, xyz, feat, valid):
        B, N, C = feat.shape
        idx = self.neighbours(xyz, valid)
        pos = self.delta(xyz[:, :, None] - take(xyz, idx))            # (B, N, k, C)
        rel = self.phi(feat)[:, :, None] - take(self.psi(feat), idx) + pos
        w = torch.softmax(self.gamma(rel), dim=2)                     # over the k neighbours
        val = (take(self.alpha(feat), idx) + pos).view(B, N, self.k, self.groups, -1)
        y = (w.unsqueeze(-1) * val).sum(dim=2).reshape(B, N, C)
        return y * valid.unsqueeze(-1).to(y.dtype)
