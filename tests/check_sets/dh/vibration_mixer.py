"""Bearing fault classifier: all-MLP, windows and channels are mixed in turn."""
from dataclasses import dataclass
import torch
from torch import nn


@dataclass
class MixCfg:
    windows: int = 12
    channels: int = 16
    hidden: int = 32
    classes: int = 4
    depth: int = 2


def mlp(n, h):
    return nn.Sequential(nn.Linear(n, h), nn.GELU(), nn.Linear(h, n))


class Layer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(cfg.channels), nn.LayerNorm(cfg.channels)
        self.time = mlp(cfg.windows, cfg.hidden)
        self.chan = mlp(cfg.channels, cfg.hidden)

    def forward(self, x):
        x = x + self.time(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.chan(self.n2(x))


class BearingNet(nn.Module):
    """x (B, windows, channels) -> class logits (B, classes)"""

    def __init__(self, cfg: MixCfg = MixCfg()):
        super().__init__()
        self.body = nn.Sequential(*[Layer(cfg) for _ in range(cfg.depth)])
        self.norm = nn.LayerNorm(cfg.channels)
        self.head = nn.Linear(cfg.channels, cfg.classes)

    def forward(self, x):
        return self.head(self.norm(self.body(x)).mean(dim=1))
