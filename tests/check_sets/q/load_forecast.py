import math

import torch
from torch import nn


class LoadForecaster(nn.Module):
    """Forecasts the next `horizon` values of each meter from the hours before.  series: (batch, hours, meters)"""

    def __init__(self, meters=3, width=12, n_heads=3, horizon=2):
        super().__init__()
        self.n_heads = n_heads
        self.inp = nn.Linear(meters, width)
        self.q = nn.Linear(width, width)
        self.k = nn.Linear(width, width)
        self.v = nn.Linear(width, width)
        self.mix = nn.Linear(width, width)
        self.head = nn.Linear(width, meters * horizon)

    def forward(self, series):
        z = self.inp(series)
        b, t, w = z.shape
        dk = w // self.n_heads
        q, k, v = [f(z).view(b, t, self.n_heads, dk).transpose(1, 2) for f in (self.q, self.k, self.v)]
        a = torch.softmax(torch.matmul(q, k.transpose(2, 3)) / math.sqrt(t), dim=-1)
        y = torch.matmul(a, v).reshape(b, t, w)
        z = z + self.mix(y)
        return self.head(z[:, -1]).view(b, -1, series.shape[-1])
