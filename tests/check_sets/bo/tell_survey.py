"""Aerial survey of tells and burial mounds: per-object heat maps.

Each object query attends over the feature map of the orthophoto.  The maps
are shown to the field team, the pooled features go on to the date estimator.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F

PERIODS = ("chalcolithic", "bronze", "iron", "hellenistic", "islamic", "modern")


class MoundHeatmap(nn.Module):
    """
    objects: [B, Q, C]      object queries
    fmap:    [B, C, H, W]   image features
    shadow:  [B, H, W] bool, True where cloud shadow hides the ground (ignored)

    Returns (pooled [B, Q, C], maps [B, Q, heads, H, W]); for each query every
    head holds its own distribution over the pixels.
    """

    def __init__(self, C=32, heads=4):
        super().__init__()
        self.heads = heads
        self.q = nn.Linear(C, C)
        self.k = nn.Conv2d(C, C, 1)
        self.v = nn.Conv2d(C, C, 1)
        self.o = nn.Linear(C, C)
        self.norm = float(C / heads) ** -0.5

    def forward(self, objects, fmap, shadow=None):
        B, Q, C = objects.shape
        H, W = fmap.shape[-2:]
        q = self.q(objects).view(B, Q, self.heads, C // self.heads)
        k = self.k(fmap).view(B, self.heads, C // self.heads, H, W)
        v = self.v(fmap).view(B, self.heads, C // self.heads, H, W)
        w = torch.einsum("bqnc,bnchw->bqnhw", q * self.norm, k)
        if shadow is not None:
            w = w.masked_fill(shadow[:, None, None], float("-inf"))
        w = F.softmax(w.flatten(2), dim=-1).view_as(w)
        out = torch.einsum("bqnhw,bnchw->bqnc", w, v).flatten(2)
        return self.o(out), w


class SurveyHead(nn.Module):
    def __init__(self, C=32, n_objects=10):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(4, C, 3, 2, 1), nn.GELU(), nn.Conv2d(C, C, 3, 2, 1))
        self.obj = nn.Parameter(torch.randn(n_objects, C))
        self.heat = MoundHeatmap(C)
        self.ln = nn.LayerNorm(C)
        self.period = nn.Linear(C, len(PERIODS) + 1)   # last = "nothing here"

    def forward(self, ortho, shadow=None):
        f = self.stem(ortho)
        q = self.obj.expand(ortho.shape[0], -1, -1)
        if shadow is not None:
            shadow = F.interpolate(shadow[:, None].float(), f.shape[-2:]).squeeze(1) > 0.5
        pooled, maps = self.heat(q, f, shadow)
        return self.period(self.ln(q + pooled)), maps


def peak_coordinates(maps, transform):
    """Centre of mass of the head-averaged map, in projected coordinates."""
    m = maps.mean(2)
    m = m / m.sum((-1, -2), keepdim=True)
    H, W = m.shape[-2:]
    r = (m.sum(-1) * torch.arange(H)).sum(-1)
    c = (m.sum(-2) * torch.arange(W)).sum(-1)
    x0, dx, y0, dy = transform
    return torch.stack([x0 + dx * c, y0 + dy * r], -1)
