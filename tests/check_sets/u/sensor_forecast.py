from typing import Optional, Tuple

import torch
from torch import Tensor, nn


class SensorAttention(nn.Module):
    def __init__(self, d_model: int = 24, n_heads: int = 3):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = d_model // n_heads
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)

    def forward(self, x: Tensor, observed: Optional[Tensor] = None) -> Tuple[Tensor, Tensor]:
        # x: [batch, time, d_model]; observed: [batch, time] bool, False = reading missing, not to be attended to
        b, t, _ = x.shape
        q, k, v = self.in_proj(x).chunk(3, dim=-1)
        q = q.view(b, t, self.n_heads, self.head_dim).transpose(1, 2)
        k = k.view(b, t, self.n_heads, self.head_dim).transpose(1, 2)
        v = v.view(b, t, self.n_heads, self.head_dim).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-2, -1)) / self.head_dim ** 0.5
        if observed is not None:
            scores = scores + observed[:, None, None, :]
        weights = torch.softmax(scores, dim=-1)
        y = torch.matmul(weights, v).transpose(1, 2).reshape(b, t, -1)
        return self.out_proj(y), weights


class Forecaster(nn.Module):
    def __init__(self, n_sensors: int = 5, horizon: int = 4, d_model: int = 24):
        super().__init__()
        self.inp = nn.Linear(n_sensors, d_model)
        self.attn = SensorAttention(d_model)
        self.norm = nn.LayerNorm(d_model)
        self.out = nn.Linear(d_model, horizon * n_sensors)
        self.horizon = horizon

    def forward(self, series: Tensor, observed: Optional[Tensor] = None) -> Tensor:
        x = self.inp(series)
        x = self.norm(x + self.attn(x, observed)[0])
        return self.out(x[:, -1]).view(series.size(0), self.horizon, -1)
