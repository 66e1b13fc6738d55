"""Encoder of a vessel's port-call history for the arrival-time model.

An event is (kind, port, hour stamp).  Self-attention over the events of one
vessel; on top of the usual scaled dot product, head h loses

    softplus(rate[h]) * log(1 + |t_i - t_j|)

so that events far apart in hours speak less to each other.  Events past
`lengths` are padding.  Every vessel must have at least one event.
"""
from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class PortCallEncoder(nn.Module):
    def __init__(self, n_kinds: int = 12, n_ports: int = 50, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        assert width % heads == 0
        self.heads = heads
        self.kind = nn.Embedding(n_kinds, width)
        self.port = nn.Embedding(n_ports, width)
        self.rate = nn.Parameter(torch.linspace(-2.0, 1.0, heads))
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.norm_a = nn.LayerNorm(width)
        self.norm_b = nn.LayerNorm(width)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def _heads(self, t: Tensor) -> Tensor:
        b, n, w = t.shape
        return t.view(b, n, self.heads, w // self.heads).transpose(1, 2)

    def attend(self, x: Tensor, hours: Tensor, pad: Tensor) -> Tensor:
        q, k, v = (self._heads(t) for t in self.qkv(x).chunk(3, dim=-1))
        gap = torch.log1p((hours[:, :, None] - hours[:, None, :]).abs())
        decay = F.softplus(self.rate).view(1, -1, 1, 1) * gap.unsqueeze(1)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1)) - decay
        scores = scores.masked_fill(pad[:, None, None, :], float("-inf"))
        mixed = scores.softmax(dim=-1) @ v
        return self.out(mixed.transpose(1, 2).flatten(2))

    def forward(self, kinds: Tensor, ports: Tensor, hours: Tensor, lengths: Tensor) -> Tensor:
        """kinds, ports: [B, N] int; hours: [B, N] float; lengths: [B] -> [B, N, width]"""
        pad = torch.arange(kinds.size(1), device=kinds.device)[None, :] >= lengths[:, None]
        x = self.kind(kinds) + self.port(ports)
        x = self.norm_a(x + self.attend(x, hours, pad))
        x = self.norm_b(x + self.ff(x))
        return x.masked_fill(pad.unsqueeze(-1), 0.0)


if __name__ == "__main__":
    enc = PortCallEncoder()
    kinds = torch.randint(0, 12, (2, 6))
    ports = torch.randint(0, 50, (2, 6))
    hours = torch.rand(2, 6).cumsum(1) * 40
    print(enc(kinds, ports, hours, torch.tensor([6, 4])).shape)
