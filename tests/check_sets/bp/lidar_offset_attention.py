"""Self attention over LiDAR points (PCT style "offset attention") for pole and curb detection.

Sweeps have different numbers of returns, so they are padded to the longest one.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def farthest_point_sample(xyz, m):
    """xyz (B, N, 3) -> indices (B, m)"""
    B, N, _ = xyz.shape
    idx = torch.zeros(B, m, dtype=torch.long)
    dist = torch.full((B, N), 1e10)
    far = torch.zeros(B, dtype=torch.long)
    for i in range(m):
        idx[:, i] = far
        c = xyz[torch.arange(B), far].unsqueeze(1)
        dist = torch.minimum(dist, ((xyz - c) ** 2).sum(-1))
        far = dist.argmax(-1)
    return idx


class OffsetAttention(nn.Module):
    """feat (B, N, C); valid (B, N) bool, False = padded return, which must not be attended to.

    attention = softmax(q k^T / sqrt(d)) v with d the width of q and k,
    output    = feat + relu(norm(W (feat - attention)))
    """

    def __init__(self, channels, reduce=4):
        super().__init__()
        self.q_conv = nn.Linear(channels, channels // reduce, bias=False)
        self.k_conv = nn.Linear(channels, channels // reduce, bias=False)
        self.v_conv = nn.Linear(channels, channels)
        self.trans = nn.Linear(channels, channels)
        self.norm = nn.LayerNorm(channels)

    def forward(self, feat, valid=None):
        q, k, v = self.q_conv(feat), self.k_conv(feat), self.v_conv(feat)
        energy = torch.bmm(q, k.transpose(1, 2)) / math.sqrt(k.size(1))
        if valid is not None:
            pad = ~valid.unsqueeze(1)
            energy.masked_fill(pad, float("-inf"))
        attention = F.softmax(energy, dim=-1)
        x_r = torch.bmm(attention, v)
        return feat + F.relu(self.norm(self.trans(feat - x_r)))


class PoleNet(nn.Module):
    def __init__(self, channels=32, n_classes=3, depth=3):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(4, channels), nn.ReLU(), nn.Linear(channels, channels))
        self.sa = nn.ModuleList(OffsetAttention(channels) for _ in range(depth))
        self.head = nn.Sequential(nn.Linear(channels * (depth + 1), 64), nn.ReLU(), nn.Linear(64, n_classes))

    def forward(self, points, valid=None):
        # points (B, N, 4): x, y, z, intensity
        x = self.embed(points)
        feats = [x]
        for sa in self.sa:
            x = sa(x, valid)
            feats.append(x)
        return self.head(torch.cat(feats, dim=-1))


if __name__ == "__main__":
    pts = torch.randn(2, 30, 4)
    ok = torch.ones(2, 30, dtype=torch.bool)
    ok[1, 20:] = False
    print(PoleNet()(pts, ok).shape, farthest_point_sample(pts[..., :3], 5).shape)
