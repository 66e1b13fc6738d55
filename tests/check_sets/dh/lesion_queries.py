import math
import torch
from torch import nn


class LesionQueries(nn.Module):
    """Fixed set of lesion queries reads the feature map of an MRI slice.

    feat  (B, C, H, W)
    brain (B, H, W) bool, only voxels inside the brain may be read
    ->    boxes (B, n, 4), score logits (B, n)
    """

    def __init__(self, channels, n_queries=5, dim=16):
        super().__init__()
        self.q = nn.Parameter(torch.randn(n_queries, dim))
        self.k = nn.Conv2d(channels, dim, 1)
        self.v = nn.Conv2d(channels, dim, 1)
        self.norm = nn.LayerNorm(dim)
        self.box = nn.Linear(dim, 4)
        self.score = nn.Linear(dim, 1)

    def read(self, feat, brain):
        keys = self.k(feat).flatten(2).transpose(1, 2)
        vals = self.v(feat).flatten(2).transpose(1, 2)
        inside = brain.flatten(1)[:, None, :]
        dots = self.q @ keys.transpose(1, 2)
        dots = dots / math.sqrt(keys.size(1))
        dots = dots.masked_fill(~inside, 1e-9)
        return torch.softmax(dots, dim=-1) @ vals

    def forward(self, feat, brain):
        z = self.norm(self.q + self.read(feat, brain))
        return self.box(z).sigmoid(), self.score(z).squeeze(-1)
