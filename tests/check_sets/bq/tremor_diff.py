"""Volcanic tremor forecasting with differential attention (Ye et al., 2024).

Two maps per head are computed and subtracted; common-mode noise (wind, sea
microseism) is expected to cancel out.  Weights of a row therefore sum to
1 - lambda and may be negative.
"""
import math
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class Station(NamedTuple):
    code: str
    lat: float
    lon: float
    elevation_m: float


ETNA = (Station("ECPN", 37.7439, 14.9866, 3050.0), Station("EBEL", 37.7397, 15.0082, 2899.0))


def rsam(trace: Tensor, window: int) -> Tensor:
    """real-time seismic amplitude: mean |velocity| per window"""
    n = trace.shape[-1] // window * window
    return trace[..., :n].abs().unflatten(-1, (-1, window)).mean(-1)


def lambda_init_for(depth: int) -> float:
    return 0.8 - 0.6 * math.exp(-0.3 * depth)


class DiffTremorAttention(nn.Module):
    """Causal.  Each of the `heads` heads has 2 query/key pairs of size d and one value of size 2d."""

    def __init__(self, dim: int, heads: int, depth: int = 0) -> None:
        super().__init__()
        self.heads = heads
        self.d = dim // heads // 2
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)
        self.lam_init = lambda_init_for(depth)
        for name in ("lq1", "lk1", "lq2", "lk2"):
            setattr(self, name, nn.Parameter(torch.randn(self.d) * 0.1))
        self.subln = nn.RMSNorm(2 * self.d, eps=1e-5, elementwise_affine=True)

    def lam(self) -> Tensor:
        a = torch.exp((self.lq1 * self.lk1).sum())
        b = torch.exp((self.lq2 * self.lk2).sum())
        return a - b + self.lam_init

    def forward(self, x: Tensor) -> Tensor:
        n, t, _ = x.shape
        q = self.q_proj(x).view(n, t, 2 * self.heads, self.d).transpose(1, 2)
        k = self.k_proj(x).view(n, t, 2 * self.heads, self.d).transpose(1, 2)
        v = self.v_proj(x).view(n, t, self.heads, 2 * self.d).transpose(1, 2)

        q = q * self.d ** -0.5
        future = torch.full((t, t), float("-inf"), device=x.device).triu(1)
        maps = F.softmax((q @ k.mT).float() + future, dim=-1).type_as(x)
        first, second = maps.view(n, self.heads, 2, t, t).unbind(2)
        y = (first - self.lam() * second) @ v
        y = self.subln(y) * (1 - self.lam_init)
        return self.o_proj(y.transpose(1, 2).reshape(n, t, -1))


class TremorNet(nn.Module):
    def __init__(self, stations: int = len(ETNA), dim: int = 64, heads: int = 4, depth: int = 3) -> None:
        super().__init__()
        self.embed = nn.Linear(stations, dim)
        self.norms = nn.ModuleList(nn.RMSNorm(dim) for _ in range(depth))
        self.att = nn.ModuleList(DiffTremorAttention(dim, heads, i) for i in range(depth))
        self.head = nn.Linear(dim, stations)

    def forward(self, amplitude: Tensor) -> Tensor:
        """amplitude [n, t, stations] (log RSAM) -> forecast of the next window."""
        h = self.embed(amplitude)
        for norm, att in zip(self.norms, self.att):
            h = h + att(norm(h))
        return amplitude + self.head(h)


def alarm(forecast: Tensor, threshold_db: float = 12.0, floor: float = 1e-9) -> Tensor:
    db = 20 * torch.log10(forecast.exp().clamp_min(floor))
    return db.amax(-1) > threshold_db
