"""Sepsis early warning on hourly ICU charts (MIMIC-style, 48 h window).

The physicians on the project asked for heat maps during *training* as well, to
see when the model starts to look at lactate, so the attention layer always
hands out its probabilities next to the output.
"""
from __future__ import annotations

import math
from typing import Tuple

import torch
import torch.nn as nn
from torch import Tensor

VITALS = ("hr", "map", "spo2", "resp", "temp", "lactate", "wbc", "creatinine")


class ChartAttention(nn.Module):
    """Multi-head self-attention over hours.

    Args:
        x: (B, T, D) hourly embeddings.
        observed: (B, T) bool, ``True`` for hours in which something was charted.
            At least the admission hour is always observed.

    Returns:
        out: (B, T, D)
        prob: (B, H, T, T) attention probabilities; every row sums to 1.
    """

    def __init__(self, dim: int, heads: int, p: float = 0.1) -> None:
        super().__init__()
        self.heads = heads
        self.hd = dim // heads
        self.to_q = nn.Linear(dim, dim)
        self.to_k = nn.Linear(dim, dim)
        self.to_v = nn.Linear(dim, dim)
        self.to_out = nn.Linear(dim, dim)
        self.drop = nn.Dropout(p)

    def _split(self, t: Tensor) -> Tensor:
        return t.unflatten(-1, (self.heads, self.hd)).transpose(1, 2)

    def forward(self, x: Tensor, observed: Tensor | None = None) -> Tuple[Tensor, Tensor]:
        q = self._split(self.to_q(x))
        k = self._split(self.to_k(x))
        v = self._split(self.to_v(x))
        logits = q @ k.mT / math.sqrt(self.hd)
        if observed is not None:
            logits = logits.masked_fill(~observed[:, None, None, :], -torch.inf)
        prob = logits.softmax(dim=-1)
        prob = self.drop(prob)
        out = self.to_out((prob @ v).transpose(1, 2).flatten(2))
        return out, prob


class SepsisNet(nn.Module):
    def __init__(self, dim: int = 64, heads: int = 4, layers: int = 2) -> None:
        super().__init__()
        self.value = nn.Linear(len(VITALS) * 2, dim)
        self.hour = nn.Embedding(48, dim)
        self.attn = nn.ModuleList(ChartAttention(dim, heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.risk = nn.Linear(dim, 1)

    def forward(self, values: Tensor, charted: Tensor):
        """values, charted: (B, 48, 8); charted marks single measurements."""
        x = self.value(torch.cat([values * charted, charted.to(values)], -1))
        x = x + self.hour.weight[: x.shape[1]]
        observed = charted.bool().any(-1)
        observed[:, 0] = True
        maps = []
        for norm, attn in zip(self.norm, self.attn):
            y, prob = attn(norm(x), observed)
            x = x + y
            maps.append(prob)
        return self.risk(x).squeeze(-1), torch.stack(maps, 1)


def hour_importance(maps: Tensor) -> Tensor:
    """(B, layers, H, T, T) -> (B, T), mean weight that each hour receives."""
    return maps.mean(dim=(1, 2, 3))


if __name__ == "__main__":
    torch.manual_seed(0)
    net = SepsisNet()
    risk, maps = net(torch.randn(2, 48, 8), torch.rand(2, 48, 8) > 0.8)
    print(risk.shape, hour_importance(maps).sum(-1))
