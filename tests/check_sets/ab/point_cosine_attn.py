# Global attention stage of our point cloud backbone.
# Farthest point sampling happens in the dataloader, so N is the same for the whole batch.
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class PosMLP(nn.Module):
    """relative xyz -> one bias per head"""

    def __init__(self, heads, hidden=32):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(3, hidden), nn.ReLU(inplace=True), nn.Linear(hidden, heads))

    def forward(self, xyz):
        rel = xyz[:, :, None, :] - xyz[:, None, :, :]        # B N N 3
        return self.net(rel).permute(0, 3, 1, 2)              # B H N N


class PointCosineAttention(nn.Module):
    """
    Scaled cosine attention (Swin V2) on points:

        Sim(q_i, k_j) = cos(q_i, k_j) / tau + B_ij

    The cosine is naturally in [-1, 1], which keeps the logits mild when the
    feature norms blow up in the deep stages.  tau is learned, one per head.
    """

    def __init__(self, dim, heads=4, tau_max=100.0):
        super().__init__()
        self.heads = heads
        self.tau_max = tau_max
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.logit_scale = nn.Parameter(torch.full((heads, 1, 1), math.log(10.0)))
        self.pos = PosMLP(heads)
        self.bn = nn.LayerNorm(dim)

    def forward(self, feats, xyz):
        B, N, C = feats.shape
        qkv = self.qkv(self.bn(feats)).reshape(B, N, 3, self.heads, C // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)                  # each B H N d

        q = F.normalize(q, dim=2)
        k = F.normalize(k, dim=2)
        sim = q @ k.transpose(-2, -1)
        scale = self.logit_scale.clamp(max=math.log(self.tau_max)).exp()
        sim = sim * scale + self.pos(xyz)

        w = sim.softmax(dim=-1)
        y = (w @ v).transpose(1, 2).reshape(B, N, C)
        return feats + self.out(y)


class GlobalStage(nn.Module):
    def __init__(self, dim=64, depth=2):
        super().__init__()
        self.layers = nn.ModuleList(PointCosineAttention(dim) for _ in range(depth))
        self.ffn = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, dim * 2), nn.GELU(), nn.Linear(dim * 2, dim))
            for _ in range(depth))

    def forward(self, f, xyz):
        for a, m in zip(self.layers, self.ffn):
            f = a(f, xyz)
            f = f + m(f)
        return f.max(dim=1).values
