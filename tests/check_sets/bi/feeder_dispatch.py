"""
Feeder-level dispatch for distribution grids.

Weights come from the utility's central model.  There the query heads are grouped
in runs: with 8 query heads and 2 key/value heads, query heads 0-3 use key/value
head 0 and query heads 4-7 use key/value head 1.  The central model also caps the
logits: cap * tanh(s / cap), and a switched-off bus receives a weight of zero.
"""
from dataclasses import dataclass

import torch
from torch import nn


@dataclass(frozen=True)
class GridConfig:
    width: int = 64
    q_heads: int = 8
    kv_heads: int = 2
    logit_cap: float = 20.0
    n_layers: int = 2

    @property
    def head_dim(self) -> int:
        return self.width // self.q_heads


class BusMixer(nn.Module):
    """x: (batch, bus, width); energised: bool (batch, bus), True when the bus is live."""

    def __init__(self, cfg: GridConfig):
        super().__init__()
        self.cfg = cfg
        d = cfg.head_dim
        self.wq = nn.Linear(cfg.width, cfg.q_heads * d, bias=False)
        self.wk = nn.Linear(cfg.width, cfg.kv_heads * d, bias=False)
        self.wv = nn.Linear(cfg.width, cfg.kv_heads * d, bias=False)
        self.wo = nn.Linear(cfg.q_heads * d, cfg.width, bias=False)

    def forward(self, x, energised):
        c = self.cfg
        B, N, _ = x.shape
        q = self.wq(x).view(B, N, c.q_heads, c.head_dim).transpose(1, 2)
        k = self.wk(x).view(B, N, c.kv_heads, c.head_dim).transpose(1, 2)
        v = self.wv(x).view(B, N, c.kv_heads, c.head_dim).transpose(1, 2)

        share = c.q_heads // c.kv_heads
        k = k.repeat(1, share, 1, 1)
        v = v.repeat(1, share, 1, 1)

        s = q @ k.mT / c.head_dim ** 0.5
        off = torch.zeros_like(energised, dtype=s.dtype).masked_fill(~energised, float("-inf"))
        s = s + off[:, None, None, :]
        s = c.logit_cap * torch.tanh(s / c.logit_cap)

        p = torch.softmax(s, dim=-1)
        return self.wo((p @ v).transpose(1, 2).reshape(B, N, -1))


class FeederNet(nn.Module):
    def __init__(self, cfg: GridConfig, measurements: int = 6):
        super().__init__()
        self.inp = nn.Linear(measurements, cfg.width)
        self.mixers = nn.ModuleList(BusMixer(cfg) for _ in range(cfg.n_layers))
        self.norms = nn.ModuleList(nn.RMSNorm(cfg.width) for _ in range(cfg.n_layers))
        self.setpoint = nn.Linear(cfg.width, 2)      # P and Q in per unit

    def forward(self, meas, energised):
        h = self.inp(meas)
        for m, n in zip(self.mixers, self.norms):
            h = h + m(n(h), energised)
        return self.setpoint(h) * energised[..., None]
