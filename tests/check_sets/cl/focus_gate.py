"""Keyword spotting: gated temporal convolutions that let the network focus on speech bands."""
import torch
from torch import nn


class FocusGate(nn.Module):
    """Content * sigmoid(focus), both from a causal depthwise-separable convolution over
    time; then every band is re-weighted from its mean over time (squeeze and excite).

    x: (batch, bands, frames) -> same shape
    """

    def __init__(self, bands=16, kernel=5, squeeze=4):
        super().__init__()
        self.pad = kernel - 1
        self.query = nn.Conv1d(bands, bands, kernel, groups=bands)
        self.key = nn.Conv1d(bands, 2 * bands, 1)
        self.value = nn.Sequential(
            nn.Linear(bands, squeeze), nn.ReLU(), nn.Linear(squeeze, bands), nn.Sigmoid()
        )

    def forward(self, x):
        y = self.query(nn.functional.pad(x, (self.pad, 0)))
        content, focus = self.key(y).chunk(2, dim=1)
        y = content * focus.sigmoid()
        return x + y * self.value(y.mean(dim=2)).unsqueeze(2)


class KeywordSpotter(nn.Module):
    def __init__(self, bands=16, words=6, depth=3):
        super().__init__()
        self.layers = nn.Sequential(*(FocusGate(bands) for _ in range(depth)))
        self.out = nn.Linear(bands, words)

    def forward(self, mel):
        return self.out(self.layers(mel).amax(dim=2))
