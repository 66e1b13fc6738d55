"""Knitting-chart generator: one token = one stitch instruction (k, p, yo, k2tog ...).

The decoder is trained on whole rows and then used stitch by stitch.  In use, a
``Memo`` is handed along: first call with the cast-on and the rows that exist
already, afterwards with the stitch just knitted.  Feeding a pattern in pieces
gives what feeding it at once gives.
"""
from dataclasses import dataclass, field
from typing import Optional

import torch
from torch import Tensor, nn


@dataclass
class Memo:
    k: Optional[Tensor] = None
    v: Optional[Tensor] = None
    step: int = 0              # position of the next stitch

    def append(self, k: Tensor, v: Tensor):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=1)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=1)
        self.step += 1
        return self.k, self.v


def twirl(x: Tensor, start: int, base: float = 10000.0) -> Tensor:
    """Rotary position, channel pairs (2i, 2i+1); x is (batch, stitches, heads, dim)."""
    n, d = x.shape[1], x.shape[-1]
    pos = torch.arange(start, start + n, dtype=torch.float32, device=x.device)
    inv = base ** (-torch.arange(0, d, 2, dtype=torch.float32, device=x.device) / d)
    z = torch.polar(torch.ones(n, d // 2, device=x.device), torch.outer(pos, inv))
    xc = torch.view_as_complex(x.float().reshape(*x.shape[:-1], d // 2, 2))
    return torch.view_as_real(xc * z[None, :, None, :]).flatten(-2).type_as(x)


class Needle(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, memo: Optional[Memo] = None) -> Tensor:
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, self.hd).unbind(2)
        start = memo.step if memo is not None else 0
        q, k = twirl(q, start), twirl(k, start)
        if memo is not None:
            k, v = memo.append(k, v)
        total = k.shape[1]
        s = torch.einsum("bihd,bjhd->bhij", q, k) * self.hd ** -0.5
        later = torch.ones(n, total, dtype=torch.bool, device=x.device).triu(1 + total - n)
        s = s.masked_fill(later, float("-inf"))
        y = torch.einsum("bhij,bjhd->bihd", s.softmax(-1), v)
        return self.proj(y.reshape(b, n, -1))


@dataclass
class ChartCfg:
    stitches: int = 48
    dim: int = 64
    heads: int = 4
    extra: dict = field(default_factory=dict)


class Knitter(nn.Module):
    def __init__(self, cfg: ChartCfg):
        super().__init__()
        self.emb = nn.Embedding(cfg.stitches, cfg.dim)
        self.needle = Needle(cfg.dim, cfg.heads)
        self.out = nn.Linear(cfg.dim, cfg.stitches)

    @torch.no_grad()
    def knit(self, cast_on: Tensor, rows: int) -> Tensor:
        memo, piece, done = Memo(), cast_on, [cast_on]
        for _ in range(rows):
            h = self.emb(piece)
            piece = self.out(h + self.needle(h, memo))[:, -1:].argmax(-1)
            done.append(piece)
        return torch.cat(done, 1)
