"""Live minutes for municipal budget hearings.

The recogniser hands over *chunks* of a few sub-words whenever a councillor pauses. Each
chunk is pushed through the decoder on top of everything said before, so a chunk of n
tokens attends to all cached tokens and, inside the chunk, only backwards.
"""
from __future__ import annotations

import dataclasses
import typing as t

import torch
import torch.nn.functional as F
from torch import nn


@dataclasses.dataclass
class Scroll:
    """Keys and values of one layer. `None` until the chair opens the session."""

    keys: t.Optional[torch.Tensor] = None
    values: t.Optional[torch.Tensor] = None

    def __len__(self) -> int:
        return 0 if self.keys is None else self.keys.size(2)

    def append(self, k: torch.Tensor, v: torch.Tensor) -> t.Tuple[torch.Tensor, torch.Tensor]:
        if self.keys is not None:
            k, v = torch.cat((self.keys, k), 2), torch.cat((self.values, v), 2)
        self.keys, self.values = k, v
        return k, v


class Positions(nn.Module):
    def __init__(self, longest: int, width: int):
        super().__init__()
        self.table = nn.Embedding(longest, width)

    def forward(self, start: int, n: int) -> torch.Tensor:
        return self.table(torch.arange(start, start + n, device=self.table.weight.device))


class HearingAttention(nn.Module):
    """Causal self-attention with an optional scroll.

    Calling it once on a whole text or piecewise with a scroll gives the same rows.
    """

    def __init__(self, width: int, heads: int, dropout: float = 0.0):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x: torch.Tensor, scroll: t.Optional[Scroll] = None) -> torch.Tensor:
        b, n, w = x.shape
        q, k, v = (p.view(b, n, self.heads, w // self.heads).transpose(1, 2) for p in self.qkv(x).split(w, dim=-1))
        if scroll is not None:
            k, v = scroll.append(k, v)
        y = F.scaled_dot_product_attention(
            q, k, v,
            dropout_p=self.dropout if self.training else 0.0,
            is_causal=n > 1,          # a lone token may see the entire scroll
        )
        return self.out(y.transpose(1, 2).reshape(b, n, w))


class Speaker(nn.Module):
    """Adds who is talking (0 = chair, 1.. = councillors)."""

    def __init__(self, seats: int, width: int):
        super().__init__()
        self.seat = nn.Embedding(seats, width)

    def forward(self, x: torch.Tensor, who: int) -> torch.Tensor:
        return x + self.seat.weight[who]


class Stenograph(nn.Module):
    def __init__(self, vocab: int = 200, width: int = 32, heads: int = 4, layers: int = 2, seats: int = 24):
        super().__init__()
        self.tok = nn.Embedding(vocab, width)
        self.pos = Positions(512, width)
        self.speaker = Speaker(seats, width)
        self.attn = nn.ModuleList(HearingAttention(width, heads) for _ in range(layers))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers + 1))

    def open_session(self) -> t.List[Scroll]:
        return [Scroll() for _ in self.attn]

    def forward(self, chunk: torch.Tensor, who: int, scrolls: t.List[Scroll]) -> torch.Tensor:
        h = self.speaker(self.tok(chunk) + self.pos(len(scrolls[0]), chunk.size(1)), who)
        for attn, norm, scroll in zip(self.attn, self.norm, scrolls):
            h = h + attn(norm(h), scroll)
        return self.norm[-1](h) @ self.tok.weight.T


if __name__ == "__main__":
    net = Stenograph().eval()
    session = net.open_session()
    for who, n in ((0, 4), (7, 3), (0, 1)):
        print(who, net(torch.randint(0, 200, (1, n)), who, session).shape)
