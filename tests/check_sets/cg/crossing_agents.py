"""Trajectory prediction at crossings: road users attend to each other.

A scene holds up to N road users, each with a motion embedding.  ``reach`` [B, N, N] says
who may influence whom in that scene (reach[b, i, j]: i may look at j; always true for
i = j).  Every road user gets, per head, a softmax-weighted mean of the users within
reach.  Heads are folded into the batch for the sake of bmm.
"""
import torch
from torch import nn


class InteractionLayer(nn.Module):
    def __init__(self, dim: int = 24, heads: int = 3):
        super().__init__()
        self.heads = heads
        self.inner = dim // heads
        self.qk = nn.Linear(dim, 2 * dim)
        self.val = nn.Linear(dim, dim)
        self.out = nn.Linear(dim, dim)

    def fold(self, x):
        b, n, _ = x.shape
        x = x.view(b, n, self.heads, self.inner).transpose(1, 2)
        return x.reshape(b * self.heads, n, self.inner)

    def unfold(self, x, b):
        n = x.shape[1]
        x = x.view(b, self.heads, n, self.inner).transpose(1, 2)
        return x.reshape(b, n, -1)

    def forward(self, x, reach):
        b = x.shape[0]
        q, k = map(self.fold, self.qk(x).chunk(2, dim=-1))
        v = self.fold(self.val(x))
        logit = torch.bmm(q, k.mT).div(self.inner ** 0.5)
        logit = logit.masked_fill(~reach.repeat(self.heads, 1, 1), float("-inf"))
        top = logit.amax(dim=(1, 2), keepdim=True)
        e = (logit - top).exp()
        w = e / e.sum(dim=(1, 2), keepdim=True)
        return self.out(self.unfold(torch.bmm(w, v), b))


class CrossingPredictor(nn.Module):
    """Past positions [B, N, T, 2] -> future offsets [B, N, horizon, 2]."""

    def __init__(self, past: int = 8, horizon: int = 12, dim: int = 24, heads: int = 3,
                 radius: float = 30.0):
        super().__init__()
        self.horizon, self.radius = horizon, radius
        self.motion = nn.Sequential(nn.Linear(past * 2, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.inter = InteractionLayer(dim, heads)
        self.norm = nn.LayerNorm(dim)
        self.future = nn.Linear(dim, horizon * 2)

    def forward(self, tracks):
        b, n, t, _ = tracks.shape
        here = tracks[:, :, -1]
        reach = torch.cdist(here, here) < self.radius
        x = self.motion((tracks - here.unsqueeze(2)).flatten(2))
        x = self.norm(x + self.inter(x, reach))
        return self.future(x).view(b, n, self.horizon, 2)
