"""FNet classifier for single-lead heartbeats (MIT-BIH notebook, fold 3).

The tokens are mixed with a two-dimensional Fourier transform, real part kept
(Lee-Thorp et al. 2021), followed by a feed-forward network. No weights in the
mixing, no masks: all beats are cut to the same length.

    beats (B, L) float, L a multiple of the patch length
    -> logits (B, n_classes)
"""
import torch
from torch import nn


class FourierBlock(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, x):
        x = self.n1(x + torch.fft.fft2(x, dim=(-2, -1)).real)
        return self.n2(x + self.ff(x))


class HeartbeatNet(nn.Module):
    def __init__(self, patch=8, length=64, width=16, depth=2, n_classes=5):
        super().__init__()
        self.patch = patch
        self.embed = nn.Linear(patch, width)
        self.where = nn.Parameter(torch.zeros(length // patch, width))
        self.blocks = nn.ModuleList(FourierBlock(width, 2 * width) for _ in range(depth))
        self.head = nn.Linear(width, n_classes)

    def forward(self, beats):
        x = beats.unflatten(1, (-1, self.patch))
        x = self.embed(x) + self.where
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(dim=1))
