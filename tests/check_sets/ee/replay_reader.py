"""Sums up recorded matches of our fighting game, to find matches that went alike.

ReplayReader(d_frame, d=32, heads=4)

forward(replay):  replay (G, F, d_frame): G games, F frames each (all cut to F)
returns           (G, d) the fingerprint of each game

The frames OF ONE GAME look at each other in two attention layers with residuals (the
games of a batch know nothing of each other, so a game's fingerprint does not depend on
what else is summed up with it); the fingerprint is the mean over its frames, projected.
"""
import torch
import torch.nn as nn


class Watch(nn.Module):
    """x (G, F, d) -> (G, F, d): frames of one game watch one another"""

    def __init__(self, d, heads):
        super().__init__()
        self.ln = nn.LayerNorm(d)
        self.mha = nn.MultiheadAttention(d, heads)

    def forward(self, x):
        y = self.ln(x)
        y, _ = self.mha(y, y, y)
        return x + y


class ReplayReader(nn.Module):
    def __init__(self, d_frame, d=32, heads=4):
        super().__init__()
        self.see = nn.Linear(d_frame, d)
        self.watch = nn.Sequential(Watch(d, heads), Watch(d, heads))
        self.stamp = nn.Linear(d, d)

    def forward(self, replay):
        x = torch.tanh(self.see(replay))
        x = self.watch(x)
        return self.stamp(x.mean(dim=1))
