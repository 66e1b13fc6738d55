"""Point transformer on lidar sweeps (Zhao et al. 2021, vector attention), no CUDA ops.

points [B, N, 3], features [B, N, C]. Each point attends to its k nearest neighbours in its own
sweep; the weights are per channel (softmax over the neighbours).
"""
import torch
from torch import nn


def knn(xyz, k):
    """[B, N, 3] -> indices [B, N, k] of the nearest points (the point itself included)"""
    dist = torch.cdist(xyz, xyz)
    return dist.topk(k, dim=-1, largest=False).indices


def index_points(points, idx):
    """points [B, N, C], idx [B, N, k] (numbers inside a sweep) -> [B, N, k, C]"""
    B, N, C = points.shape
    flat = points.reshape(B * N, C)
    return flat[idx.reshape(-1)].view(B, N, idx.shape[-1], C)


class VectorAttention(nn.Module):
    """y_i = sum_j softmax_j( gamma(phi(x_i) - psi(x_j) + delta_ij) ) * (alpha(x_j) + delta_ij)"""

    def __init__(self, channels, d_model=64, k=16):
        super().__init__()
        self.fc1 = nn.Linear(channels, d_model)
        self.fc2 = nn.Linear(d_model, channels)
        self.fc_delta = nn.Sequential(nn.Linear(3, d_model), nn.ReLU(), nn.Linear(d_model, d_model))
        self.fc_gamma = nn.Sequential(nn.Linear(d_model, d_model), nn.ReLU(), nn.Linear(d_model, d_model))
        self.w_qs = nn.Linear(d_model, d_model, bias=False)
        self.w_ks = nn.Linear(d_model, d_model, bias=False)
        self.w_vs = nn.Linear(d_model, d_model, bias=False)
        self.k = k

    def forward(self, xyz, features):
        idx = knn(xyz, min(self.k, xyz.shape[1]))
        pos = self.fc_delta(xyz[:, :, None] - index_points(xyz, idx))

        x = self.fc1(features)
        q = self.w_qs(x)
        k = index_points(self.w_ks(x), idx)
        v = index_points(self.w_vs(x), idx)
        attn = self.fc_gamma(q[:, :, None] - k + pos)
        attn = torch.softmax(attn, dim=-2)
        y = ((v + pos) * attn).sum(dim=2)
        return self.fc2(y) + features, attn


class TransitionDown(nn.Module):
    """random subsampling, then max over the neighbourhoods"""

    def __init__(self, cin, cout, ratio=4, k=16):
        super().__init__()
        self.ratio, self.k = ratio, k
        self.mlp = nn.Sequential(nn.Linear(cin, cout), nn.LayerNorm(cout), nn.ReLU())

    def forward(self, xyz, feat):
        B, N, _ = xyz.shape
        keep = torch.randperm(N, device=xyz.device)[: max(N // self.ratio, 1)]
        centers = xyz[:, keep]
        near = torch.cdist(centers, xyz).topk(min(self.k, N), largest=False).indices
        h = self.mlp(feat)
        gathered = h.unsqueeze(1).expand(-1, len(keep), -1, -1).gather(
            2, near.unsqueeze(-1).expand(-1, -1, -1, h.size(-1)))
        return centers, gathered.max(2).values


class SweepClassifier(nn.Module):
    """car / pedestrian / cyclist / pole / other, for one cropped cluster"""

    def __init__(self, classes=5, width=32, stages=3, k=16):
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(4, width), nn.ReLU(), nn.Linear(width, width))
        self.first = VectorAttention(width, k=k)
        self.downs, self.attns = nn.ModuleList(), nn.ModuleList()
        c = width
        for _ in range(stages):
            self.downs.append(TransitionDown(c, c * 2, k=k))
            c *= 2
            self.attns.append(VectorAttention(c, k=k))
        self.head = nn.Sequential(nn.Linear(c, 64), nn.ReLU(), nn.Linear(64, classes))

    def forward(self, sweep):
        """sweep [B, N, 4]: x, y, z, intensity"""
        xyz, f = sweep[..., :3], self.stem(sweep)
        f, _ = self.first(xyz, f)
        for down, attn in zip(self.downs, self.attns):
            xyz, f = down(xyz, f)
            f, _ = attn(xyz, f)
        return self.head(f.mean(1))
