# M5 forecasting: TSMixer variant (time MLP, feature MLP with a gate)
import torch
import torch.nn as nn


class MixerBlock(nn.Module):
    def __init__(self, steps, feats, p=0.1):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(feats), nn.LayerNorm(feats)
        self.time = nn.Sequential(nn.Linear(steps, steps), nn.ReLU(), nn.Dropout(p))
        self.up = nn.Linear(feats, 4 * feats)
        self.down = nn.Linear(2 * feats, feats)

    def forward(self, x):
        x = x + self.time(self.n1(x).transpose(1, 2)).transpose(1, 2)
        a, g = self.up(self.n2(x)).chunk(2, dim=-1)
        return x + self.down(a * torch.sigmoid(g))


class SalesMixer(nn.Module):
    """x (B, steps, feats) -> (B, horizon) for the first feature"""

    def __init__(self, steps=28, feats=6, horizon=7, depth=3):
        super().__init__()
        self.blocks = nn.Sequential(*[MixerBlock(steps, feats) for _ in range(depth)])
        self.head = nn.Linear(steps, horizon)

    def forward(self, x):
        last = x[:, -1:, 0]
        y = self.blocks(x - x[:, -1:]).transpose(1, 2)
        return self.head(y)[:, 0] + last
