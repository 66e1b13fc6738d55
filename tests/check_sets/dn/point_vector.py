"""Vector attention between neighbouring points (Point Transformer, Zhao 2021).

For a point i and its k nearest real points j (itself is one of them)

    delta_ij = theta(p_i - p_j)
    w_ij     = softmax over j of gamma(q_i - k_j + delta_ij)
    y_i      = sum_j w_ij * (v_j + delta_ij)

w_ij is a vector: every channel has weights of its own, which is why there is
no dot product and no 1/sqrt(d).

PointVectorLayer(dim, k)
    xyz    (B, N, 3)
    feat   (B, N, dim)
    valid  (B, N) bool, True = real point, False = filler of a smaller cloud
    ->     (B, N, dim): feat + y, fillers get zeros
If a cloud has fewer than k real points, the fillers among the k found are not
read.  A cloud has at least one real point.
"""
import torch
from torch import nn


def gather_points(t, idx):
    """t (B, N, C), idx (B, N, k) -> (B, N, k, C)"""
    B, N, k = idx.shape
    flat = idx.reshape(B, N * k, 1).expand(-1, -1, t.size(-1))
    return t.gather(1, flat).view(B, N, k, t.size(-1))


class PointVectorLayer(nn.Module):
    def __init__(self, dim, k=8, hidden=32):
        super().__init__()
        self.k = k
        self.phi = nn.Linear(dim, dim, bias=False)      # queries
        self.psi = nn.Linear(dim, dim, bias=False)      # keys
        self.alpha = nn.Linear(dim, dim, bias=False)    # values
        self.theta = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(), nn.Linear(hidden, dim))
        self.gamma = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Linear(hidden, dim))

    def neighbours(self, xyz, valid):
        dist = torch.cdist(xyz, xyz)
        dist = dist.masked_fill(~valid[:, None, :], float("inf"))
        k = min(self.k, xyz.size(1))
        return dist.topk(k, dim=-1, largest=False).indices      # (B, N, k)

    def forward(self, xyz, feat, valid):
        idx = self.neighbours(xyz, valid)
        ok = gather_points(valid.unsqueeze(-1).float(), idx) > 0   # (B, N, k, 1)

        delta = self.theta(xyz.unsqueeze(2) - gather_points(xyz, idx))
        key = gather_points(self.psi(feat), idx)
        val = gather_points(self.alpha(feat), idx) + delta

        logit = self.gamma(self.phi(feat).unsqueeze(2) - key + delta)
        logit = logit.masked_fill(~ok, float("-inf"))
        w = logit.softmax(dim=2)                                   # over the neighbours

        y = feat + (w * val).sum(dim=2)
        return y * valid.unsqueeze(-1).to(y.dtype)
