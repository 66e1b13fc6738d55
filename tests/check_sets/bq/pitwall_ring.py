"""Tyre degradation on the pit wall: streaming attention with a fixed memory.

Telemetry arrives sample by sample (10 Hz). Only the last `capacity` samples are
kept, in a ring: the oldest one is overwritten. There is no positional term, so the
order of the slots in the ring does not matter to the softmax.
"""
from dataclasses import dataclass
from enum import Enum
from typing import Optional

import torch
from torch import Tensor, nn


class Compound(Enum):
    SOFT = 0
    MEDIUM = 1
    HARD = 2
    INTERMEDIATE = 3
    WET = 4


@dataclass
class Telemetry:
    speed_kmh: float
    throttle: float
    brake: float
    steer_deg: float
    surface_c: float

    def vector(self) -> Tensor:
        return torch.tensor([self.speed_kmh / 350, self.throttle, self.brake, self.steer_deg / 180,
                             self.surface_c / 120])


class Ring:
    """key/value memory of one car per batch row"""

    def __init__(self, batch: int, heads: int, capacity: int, d: int):
        self.keys = torch.zeros(batch, heads, capacity, d)
        self.values = torch.zeros(batch, heads, capacity, d)
        self.capacity = capacity
        self.written = 0

    def push(self, k: Tensor, v: Tensor) -> None:
        self.keys[:, :, self.written % self.capacity] = k
        self.written += 1
        self.values[:, :, self.written % self.capacity] = v

    def live(self) -> int:
        return min(self.written, self.capacity)


class StreamingAttention(nn.Module):
    """
    forward(x [B, T, dim], ring=None) -> (y [B, T, dim], ring)

    Sample t attends to the `capacity` newest samples including itself (fewer at
    the start). Pass the ring on to continue the stream.
    """

    def __init__(self, dim: int = 32, heads: int = 4, capacity: int = 64):
        super().__init__()
        self.heads, self.d, self.capacity = heads, dim // heads, capacity
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim)

    @torch.no_grad()
    def forward(self, x: Tensor, ring: Optional[Ring] = None):
        B, T, dim = x.shape
        if ring is None:
            ring = Ring(B, self.heads, self.capacity, self.d)
        ys = []
        for t in range(T):
            q, k, v = self.qkv(x[:, t]).view(B, 3, self.heads, self.d).unbind(1)
            ring.push(k, v)
            n = ring.live()
            score = torch.einsum("bhd,bhsd->bhs", q, ring.keys[:, :, :n]) * self.d ** -0.5
            weight = torch.softmax(score, dim=-1)
            ys.append(torch.einsum("bhs,bhsd->bhd", weight, ring.values[:, :, :n]).reshape(B, dim))
        return self.out(torch.stack(ys, dim=1)), ring


class TyreModel(nn.Module):
    def __init__(self, dim: int = 32, channels: int = 5, capacity: int = 64):
        super().__init__()
        self.inp = nn.Linear(channels, dim)
        self.compound = nn.Embedding(len(Compound), dim)
        self.att = StreamingAttention(dim, capacity=capacity)
        self.grip = nn.Linear(dim, 1)

    def forward(self, samples: Tensor, compound: Tensor, ring: Optional[Ring] = None):
        h = self.inp(samples) + self.compound(compound)[:, None]
        y, ring = self.att(h, ring)
        return torch.sigmoid(self.grip(h + y)).squeeze(-1), ring


def box_now(grip: Tensor, laps_left: int, pit_loss_s: float = 22.0, s_per_grip: float = 4.0) -> Tensor:
    return (1.0 - grip[:, -1]) * s_per_grip * laps_left > pit_loss_s


if __name__ == "__main__":
    model, ring = TyreModel(capacity=8), None
    for lap in range(3):
        s = torch.stack([Telemetry(200 + lap, 0.8, 0.0, 3.0, 95.0).vector()] * 5)[None]
        g, ring = model(s, torch.tensor([Compound.MEDIUM.value]), ring)
        print(lap, g[0, -1].item(), bool(box_now(g, 30 - lap)))
