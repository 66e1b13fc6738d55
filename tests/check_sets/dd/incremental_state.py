import torch
import torch.nn as nn


class IncrementalDecoderLayer(nn.Module):
    """Decoder layer for step-by-step translation.

    `step` takes one target position (B, d); `state` keeps the keys and values of earlier positions.
    """

    def __init__(self, d=30, heads=3):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4))
        self.ff = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))
        self.norm = nn.LayerNorm(d)

    def rows(self, t):
        return t.view(t.size(0), self.heads, 1, -1)

    def step(self, y, state):
        z = self.norm(y)
        q, k, v = self.rows(self.q(z)), self.rows(self.k(z)), self.rows(self.v(z))
        if "k" in state:
            k = torch.cat([state["k"], k], dim=2)
            v = torch.cat([v, state["v"]], dim=2)
        state["k"], state["v"] = k, v
        w = torch.softmax(q @ k.transpose(-1, -2) / q.size(-1) ** 0.5, dim=-1)
        y = y + self.o((w @ v).flatten(1))
        return y + self.ff(y)

    def forward(self, ys):
        """ys (B, T, d): runs the steps one after another from an empty state, returns (B, T, d)"""
        state = {}
        return torch.stack([self.step(y, state) for y in ys.unbind(1)], dim=1)
