"""Forecast of gauge levels: attention between stations at one time, then a GRU in time."""
import math
from typing import Callable, Dict

import torch
from torch import nn

REGISTRY: Dict[str, Callable[..., nn.Module]] = {}


def register(name: str):
    def deco(cls):
        REGISTRY[name] = cls
        return cls
    return deco


def build(name: str, **kw) -> nn.Module:
    return REGISTRY[name](**kw)


@register("station_attention")
class StationAttention(nn.Module):
    """Scaled dot-product attention (Vaswani et al.) over the station axis.

    x: [batch, stations, time, channels]; offline: bool [batch, stations], True = no data.
    """

    def __init__(self, channels: int, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.wq = nn.Linear(channels, channels, bias=False)
        self.wk = nn.Linear(channels, channels, bias=False)
        self.wv = nn.Linear(channels, channels, bias=False)
        self.wo = nn.Linear(channels, channels)

    def _split(self, z):
        b, s, t, c = z.shape
        return z.view(b, s, t, self.heads, c // self.heads).permute(0, 2, 3, 1, 4)

    def forward(self, x: torch.Tensor, offline: torch.Tensor | None = None) -> torch.Tensor:
        b, s, t, c = x.shape
        q, k, v = self._split(self.wq(x)), self._split(self.wk(x)), self._split(self.wv(x))
        energy = torch.einsum("bthic,bthjc->bthij", q, k) / math.sqrt(q.size(3))
        if offline is not None:
            energy = energy.masked_fill(offline[:, None, None, None, :], torch.finfo(energy.dtype).min)
        prob = energy.softmax(dim=-1)
        out = torch.einsum("bthij,bthjc->bithc", prob, v).reshape(b, s, t, c)
        return self.wo(out)


@register("gauge_net")
class GaugeNet(nn.Module):
    def __init__(self, features: int, channels: int = 16, horizon: int = 6) -> None:
        super().__init__()
        self.inp = nn.Linear(features, channels)
        self.norm = nn.LayerNorm(channels)
        self.mix = build("station_attention", channels=channels)
        self.gru = nn.GRU(channels, channels, batch_first=True)
        self.out = nn.Linear(channels, horizon)

    def forward(self, x, offline=None):
        h = self.inp(x)
        h = h + self.mix(self.norm(h), offline)
        b, s, t, c = h.shape
        _, last = self.gru(h.reshape(b * s, t, c))
        return self.out(last[-1]).view(b, s, -1)


def nash_sutcliffe(pred, obs):
    return 1 - ((pred - obs) ** 2).sum(-1) / ((obs - obs.mean(-1, keepdim=True)) ** 2).sum(-1).clamp(min=1e-9)
