"""Electricity load forecasting with an encoder-only transformer.

Input is a window of hourly load plus calendar covariates; the output is the
next `horizon` hours for every series.
"""
import math
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class ForecastConfig:
    n_features: int = 5
    d_model: int = 24
    n_heads: int = 3
    d_ff: int = 32
    n_layers: int = 2
    horizon: int = 6
    dropout: float = 0.1


class TemporalAttention(nn.Module):
    """Self-attention over time steps (scaled dot product, Vaswani et al.)."""

    def __init__(self, cfg):
        super().__init__()
        self.h = cfg.n_heads
        self.W_q = nn.Linear(cfg.d_model, cfg.d_model)
        self.W_k = nn.Linear(cfg.d_model, cfg.d_model)
        self.W_v = nn.Linear(cfg.d_model, cfg.d_model)
        self.W_o = nn.Linear(cfg.d_model, cfg.d_model)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x):
        K = x.shape[1]
        # heads on the batch axis
        queries = torch.cat(self.W_q(x).chunk(self.h, dim=-1), dim=0)
        keys = torch.cat(self.W_k(x).chunk(self.h, dim=-1), dim=0)
        values = torch.cat(self.W_v(x).chunk(self.h, dim=-1), dim=0)

        scores = torch.bmm(queries, keys.transpose(1, 2)) / math.sqrt(K)
        attention = self.drop(torch.softmax(scores, dim=-1))
        heads = torch.bmm(attention, values).chunk(self.h, dim=0)
        return self.W_o(torch.cat(heads, dim=-1))


class EncoderLayer(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.attn = TemporalAttention(cfg)
        self.ff = nn.Sequential(nn.Linear(cfg.d_model, cfg.d_ff), nn.GELU(),
                                nn.Linear(cfg.d_ff, cfg.d_model))
        self.n1 = nn.LayerNorm(cfg.d_model)
        self.n2 = nn.LayerNorm(cfg.d_model)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, x):
        x = self.n1(x + self.drop(self.attn(x)))
        return self.n2(x + self.drop(self.ff(x)))


class LoadForecaster(nn.Module):
    def __init__(self, cfg: ForecastConfig = ForecastConfig()):
        super().__init__()
        self.embed = nn.Linear(cfg.n_features + 2, cfg.d_model)
        self.layers = nn.ModuleList(EncoderLayer(cfg) for _ in range(cfg.n_layers))
        self.head = nn.Linear(cfg.d_model, cfg.horizon)

    @staticmethod
    def clock(x):
        # daily cycle, the window always starts at midnight
        t = torch.arange(x.shape[1], device=x.device, dtype=x.dtype) * (2 * math.pi / 24)
        t = torch.stack([t.sin(), t.cos()], dim=-1)
        return t.expand(x.shape[0], -1, -1)

    def forward(self, x):
        """x: [batch, hours, n_features] -> [batch, horizon]"""
        x = self.embed(torch.cat([x, self.clock(x)], dim=-1))
        for layer in self.layers:
            x = layer(x)
        return self.head(x[:, -1])
