import torch
from torch import nn


class QueueForecast(nn.Module):
    """Forecasts chat-queue load hour by hour.

    hours (B, T, D). Hour t may use hours 0..t, itself included, and no later one.
    Multi-head scaled dot-product attention, then a residual feed-forward part.
    """

    def __init__(self, D=16, parts=4):
        super().__init__()
        self.parts = parts
        self.p, self.r, self.s, self.t = (nn.Linear(D, D) for _ in range(4))
        self.ff = nn.Sequential(nn.LayerNorm(D), nn.Linear(D, D), nn.SiLU(), nn.Linear(D, D))

    def _open(self, y):
        B, T, D = y.shape
        return y.reshape(B, self.parts, T, D // self.parts)

    def _later(self, T, dev):
        return torch.triu(torch.ones(T, T, device=dev), diagonal=2).bool()

    def forward(self, hours):
        B, T, D = hours.shape
        p, r, s = self._open(self.p(hours)), self._open(self.r(hours)), self._open(self.s(hours))
        g = p @ r.transpose(2, 3) / (p.shape[2] ** 0.5)
        g = g.masked_fill(self._later(T, hours.device), float("-inf")).softmax(dim=3)
        y = hours + self.t((g @ s).transpose(1, 2).reshape(B, T, D))
        return y + self.ff(y)
