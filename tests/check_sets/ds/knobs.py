"""CBAM (Woo et al., ECCV 2018): "channel attention" and "spatial attention".

Despite the names nothing is compared with anything here.  There are no queries
and no keys and nothing is normalised to sum one: two sigmoid gates, that is all.
"""
import torch
from torch import nn


class ChannelKnob(nn.Module):
    """gate_c = sigmoid(MLP(mean over pixels) + MLP(max over pixels)), MLP shared."""

    def __init__(self, ch, r=16):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(ch, max(1, ch // r)), nn.ReLU(), nn.Linear(max(1, ch // r), ch))

    def forward(self, x):
        g = self.mlp(x.mean((2, 3))) + self.mlp(x.amax((2, 3)))
        return x * torch.sigmoid(g)[..., None, None]


class PlaceKnob(nn.Module):
    """gate_ij = sigmoid(conv7x7([mean over channels, max over channels]))."""

    def __init__(self, k=7):
        super().__init__()
        self.conv = nn.Conv2d(2, 1, k, padding=k // 2)

    def forward(self, x):
        m = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], dim=1)
        return x * torch.sigmoid(self.conv(m))


class Knobs(nn.Module):
    """x (B, C, H, W) -> (B, C, H, W): channel gate, then spatial gate, plus the input."""

    def __init__(self, ch, r=16, k=7):
        super().__init__()
        self.c, self.p = ChannelKnob(ch, r), PlaceKnob(k)

    def forward(self, x):
        return x + self.p(self.c(x))
