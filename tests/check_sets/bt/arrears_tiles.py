"""Collections desk: read a borrower's whole payment ledger (10k+ rows) in tiles.

The attention has a *sink*: one learned logit per head that takes part in the softmax
denominator, exactly once, like a key whose value is zero, so a head may choose to read
nothing. Memory stays O(tile) because the softmax is computed online.
"""
from __future__ import annotations

import torch
from torch import nn


class Ledger(nn.Module):
    """(amount due, amount paid, days late, channel) -> row vectors."""

    def __init__(self, width: int, channels: int = 6) -> None:
        super().__init__()
        self.money = nn.Linear(3, width)
        self.channel = nn.Embedding(channels, width)

    def forward(self, numbers: torch.Tensor, channel: torch.Tensor) -> torch.Tensor:
        return torch.tanh(self.money(torch.log1p(numbers.clamp_min(0)))) + self.channel(channel)


class RunningSoftmax:
    """State of an online softmax over keys: maximum, denominator, weighted values."""

    def __init__(self, shape: tuple[int, ...], width: int, like: torch.Tensor) -> None:
        self.m = like.new_full(shape + (1,), float("-inf"))
        self.l = like.new_zeros(shape + (1,))
        self.acc = like.new_zeros(shape + (width,))

    def update(self, s: torch.Tensor, v: torch.Tensor, sink: torch.Tensor) -> None:
        m = torch.maximum(torch.maximum(self.m, s.amax(-1, keepdim=True)), sink)
        shrink = torch.exp(self.m - m)
        p = torch.exp(s - m)
        self.l = self.l * shrink + p.sum(-1, keepdim=True) + torch.exp(sink - m)
        self.acc = self.acc * shrink + p @ v
        self.m = m

    def result(self) -> torch.Tensor:
        return self.acc / self.l


class LedgerReader(nn.Module):
    """queries [B, Q, width], rows [B, N, width], real [B, N] (False = filler row)."""

    def __init__(self, width: int = 24, heads: int = 3, tile: int = 256) -> None:
        super().__init__()
        self.heads, self.tile = heads, tile
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width, bias=False)
        self.v = nn.Linear(width, width, bias=False)
        self.o = nn.Linear(width, width, bias=False)
        self.sink = nn.Parameter(torch.zeros(heads))

    def _heads(self, t: torch.Tensor) -> torch.Tensor:
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, queries: torch.Tensor, rows: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        q = self._heads(self.q(queries))
        q = q * q.shape[-1] ** -0.5
        sink = self.sink.view(1, -1, 1, 1)
        run = RunningSoftmax(q.shape[:3], q.shape[3], q)
        for part, ok in zip(rows.split(self.tile, dim=1), real.split(self.tile, dim=1)):
            s = q @ self._heads(self.k(part)).transpose(-1, -2)
            s = s.masked_fill(~ok[:, None, None, :], float("-inf"))
            run.update(s, self._heads(self.v(part)), sink)
        return self.o(run.result().transpose(1, 2).flatten(2))


class ArrearsModel(nn.Module):
    QUESTIONS = ("will pay within 7 days", "needs a plan", "dispute", "vulnerable")

    def __init__(self, width: int = 24, tile: int = 256) -> None:
        super().__init__()
        self.ledger = Ledger(width)
        self.ask = nn.Parameter(torch.randn(len(self.QUESTIONS), width))
        self.reader = LedgerReader(width, tile=tile)
        self.score = nn.Linear(width, 1)

    def forward(self, numbers: torch.Tensor, channel: torch.Tensor, real: torch.Tensor) -> torch.Tensor:
        rows = self.ledger(numbers, channel)
        asked = self.ask.expand(rows.shape[0], -1, -1)
        return self.score(asked + self.reader(asked, rows, real)).squeeze(-1).sigmoid()


if __name__ == "__main__":
    n = 700
    model = ArrearsModel()
    print(model(torch.rand(2, n, 3) * 500, torch.randint(0, 6, (2, n)), torch.arange(n)[None] < torch.tensor([[n], [411]])))
