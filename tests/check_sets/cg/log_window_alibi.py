"""Anomaly scoring of service logs: local causal attention over log-line embeddings.

Each line looks at the last ``window`` lines, itself included.  Distances are
punished linearly with the ALiBi slopes (the paper's recipe, also for a number
of heads that is not a power of two), and the mixed result goes through a
sigmoid gate computed from the line before it is projected.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class LogConfig:
    width: int = 36
    heads: int = 6
    window: int = 16


def alibi_slopes(n: int) -> list[float]:
    def pow2(m: int) -> list[float]:
        return [2.0 ** (-8.0 * (i + 1) / m) for i in range(m)]

    m = 2 ** math.floor(math.log2(n))
    return pow2(m) + pow2(2 * m)[0::2][: n - m]


class LogWindowAttention(nn.Module):
    slopes: Tensor

    def __init__(self, cfg: LogConfig = LogConfig()) -> None:
        super().__init__()
        self.cfg = cfg
        self.inp = nn.Linear(cfg.width, 3 * cfg.width, bias=False)
        self.gate = nn.Linear(cfg.width, cfg.width)
        self.out = nn.Linear(cfg.width, cfg.width, bias=False)
        self.register_buffer("slopes", torch.tensor(alibi_slopes(cfg.heads)), persistent=False)

    def forward(self, lines: Tensor) -> Tensor:
        n, t, w = lines.shape
        h = self.cfg.heads
        q, k, v = self.inp(lines).view(n, t, 3, h, w // h).permute(2, 0, 3, 1, 4)
        pos = torch.arange(t, device=lines.device)
        back = pos[:, None] - pos[None, :]
        visible = (back >= 0) & (back < self.cfg.window)
        bias = -self.slopes[:, None, None] * back
        bias = bias.masked_fill(~visible, float("-inf"))
        att = torch.softmax(q @ k.mT / math.sqrt(w // h) + bias, dim=-1)
        mixed = (att @ v).transpose(1, 2).reshape(n, t, w)
        return self.out(torch.sigmoid(self.gate(lines)) * mixed)


class LogScorer(nn.Module):
    """Score = squared error of predicting the embedding of the next line."""

    def __init__(self, cfg: LogConfig = LogConfig()) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(cfg.width)
        self.att = LogWindowAttention(cfg)
        self.predict = nn.Linear(cfg.width, cfg.width)

    def forward(self, lines: Tensor) -> Tensor:
        ctx = lines + self.att(self.norm(lines))
        guess = self.predict(ctx[:, :-1])
        return (guess - lines[:, 1:]).square().mean(-1)
