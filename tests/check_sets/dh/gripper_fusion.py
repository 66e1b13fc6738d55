"""Slip detection from tactile pads and motor currents."""
import torch
from torch import nn


class SlipNet(nn.Module):
    """tactile (B, T, n_pads), current (B, T, n_motors) -> slip logit per time step (B, T).

    Both streams are embedded, added, and every time step consults the whole recording.
    """

    def __init__(self, n_pads=16, n_motors=3, dim=24, heads=4):
        super().__init__()
        self.pads = nn.Linear(n_pads, dim)
        self.motors = nn.Linear(n_motors, dim)
        self.lstm = nn.LSTM(dim, dim, batch_first=True)
        self.norm = nn.LayerNorm(dim)
        self.consult = nn.MultiheadAttention(dim, heads)
        self.head = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, 1))

    def forward(self, tactile, current):
        x = self.pads(tactile) + self.motors(current)
        x, _ = self.lstm(x)
        n = self.norm(x)
        y, _ = self.consult(n, n, n, need_weights=False)
        return self.head(x + y).squeeze(-1)
