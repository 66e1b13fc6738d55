"""stedman_touch: write new touches for a ring of eight bells, one blow at a time.

A "row" is a permutation of the bells, a "touch" a sequence of rows.  We flatten the
touch into blows and let a tiny decoder guess the next bell.  Only past blows may be
heard.  The conductor (the sampling loop) calls the model with the newest blow and
hands back the ``Memory`` that it got the last time.

    python stedman_touch.py
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Optional

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class TowerConfig:
    bells: int = 8
    width: int = 48
    q_heads: int = 6
    kv_heads: int = 2          # three query heads in a row share one kv head
    theta: float = 10_000.0
    eps: float = 1e-6

    @property
    def head_width(self) -> int:
        return self.width // self.q_heads

    @property
    def share(self) -> int:
        return self.q_heads // self.kv_heads


class Memory(NamedTuple):
    keys: Tensor               # [batch, kv_heads, heard, head_width], already turned
    values: Tensor

    @property
    def heard(self) -> int:
        return self.keys.shape[2]


class UnitNorm(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(width))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return self.gain * x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps)


def turn(x: Tensor, first: int, theta: float) -> Tensor:
    """Rotary turn of neighbouring pairs (2i, 2i+1); ``first`` is the place of x[..., 0, :]."""
    length, width = x.shape[-2:]
    freq = theta ** (-torch.arange(0, width, 2, dtype=x.dtype, device=x.device) / width)
    place = torch.arange(first, first + length, dtype=x.dtype, device=x.device)
    angle = torch.outer(place, freq)
    c, s = angle.cos(), angle.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)


class Listening(nn.Module):
    """Causal attention over blows; x is [batch, blows, width]."""

    def __init__(self, cfg: TowerConfig) -> None:
        super().__init__()
        self.cfg = cfg
        self.ask = nn.Linear(cfg.width, cfg.q_heads * cfg.head_width, bias=False)
        self.tell = nn.Linear(cfg.width, 2 * cfg.kv_heads * cfg.head_width, bias=False)
        self.out = nn.Linear(cfg.q_heads * cfg.head_width, cfg.width, bias=False)
        self.ask_norm = UnitNorm(cfg.head_width, cfg.eps)
        self.key_norm = UnitNorm(cfg.head_width, cfg.eps)

    def forward(self, x: Tensor, memory: Optional[Memory] = None) -> tuple[Tensor, Memory]:
        cfg, (batch, blows, _) = self.cfg, x.shape
        heard = memory.heard if memory is not None else 0

        q = self.ask(x).view(batch, blows, cfg.q_heads, cfg.head_width).transpose(1, 2)
        k, v = self.tell(x).view(batch, blows, 2, cfg.kv_heads, cfg.head_width).permute(2, 0, 3, 1, 4)
        q = turn(self.ask_norm(q), heard, cfg.theta)
        k = turn(self.key_norm(k), heard, cfg.theta)
        if memory is not None:
            k = torch.cat((memory.keys, k), dim=2)
            v = torch.cat((memory.values, v), dim=2)

        # fold the sharing query heads next to their kv head: [b, kv, share, blows, d]
        q = q.unflatten(1, (cfg.kv_heads, cfg.share))
        score = torch.einsum("bgsqd,bgkd->bgsqk", q, k) * cfg.head_width ** -0.5
        now = torch.arange(heard, heard + blows, device=x.device)
        then = torch.arange(heard + blows, device=x.device)
        score = score.masked_fill(then > now[:, None], float("-inf"))
        heed = torch.einsum("bgsqk,bgkd->bgsqd", score.softmax(-1), v)
        heed = heed.flatten(1, 2).transpose(1, 2).reshape(batch, blows, -1)
        return self.out(heed), Memory(k, v)


class Conductor(nn.Module):
    def __init__(self, cfg: TowerConfig = TowerConfig()) -> None:
        super().__init__()
        self.bell = nn.Embedding(cfg.bells, cfg.width)
        self.listen = Listening(cfg)
        self.norm = UnitNorm(cfg.width, cfg.eps)
        self.call = nn.Linear(cfg.width, cfg.bells)

    def forward(self, blows: Tensor, memory: Optional[Memory] = None):
        x = self.bell(blows)
        y, memory = self.listen(self.norm(x), memory)
        return self.call(x + y), memory

    @torch.no_grad()
    def ring(self, start: Tensor, rows: int) -> Tensor:
        touch, logits_of = [start], start
        memory = None
        for _ in range(rows):
            logits, memory = self(logits_of, memory)
            logits_of = logits[:, -1:].argmax(-1)
            touch.append(logits_of)
        return torch.cat(touch, dim=1)


if __name__ == "__main__":
    torch.manual_seed(1668)
    print(Conductor().ring(torch.arange(8)[None], 16))
