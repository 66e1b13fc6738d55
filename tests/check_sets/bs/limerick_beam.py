"""Beam search for limericks.

The decoder layer keeps keys and values of what every beam has said so far.  After each step the
survivors are chosen; ``origin[i]`` tells from which old beam the new beam i descends, and the
layer takes over that beam's past before the next token is processed.
"""
from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

RHYME = "aabba"


class BeamAttention(nn.Module):
    """Causal self-attention with a built-in cache.

    x       [beams, T, dim]   the newest tokens of every beam
    real    [beams, T] bool   False where a prompt was padded on the left (optional)
    origin  [beams] long      parent of every beam (optional, None: nobody moved)
    """

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.in_proj = nn.Linear(dim, 3 * dim)
        self.out_proj = nn.Linear(dim, dim)
        self.reset()

    def reset(self) -> None:
        self.k = self.v = self.real = None

    def forward(self, x: Tensor, real: Tensor | None = None, origin: Tensor | None = None) -> Tensor:
        n, t, dim = x.shape
        if real is None:
            real = torch.ones(n, t, dtype=torch.bool, device=x.device)
        q, k, v = (z.view(n, t, self.heads, self.size).transpose(1, 2) for z in self.in_proj(x).chunk(3, -1))
        past = 0
        if self.k is not None:
            past = self.k.size(2)
            if origin is not None:
                self.k, self.real = self.k[origin], self.real[origin]
            k = torch.cat((self.k, k), 2)
            v = torch.cat((self.v, v), 2)
            real = torch.cat((self.real, real), 1)
        self.k, self.v, self.real = k, v, real

        here = torch.arange(past, past + t, device=x.device)
        there = torch.arange(past + t, device=x.device)
        see = (there <= here[:, None]) & real[:, None, :]
        see = see | (there == here[:, None])             # padding looks at itself
        s = q @ k.transpose(-1, -2) / self.size ** 0.5
        s = s.masked_fill(~see[:, None], float("-inf"))
        y = s.softmax(-1) @ v
        return self.out_proj(y.transpose(1, 2).reshape(n, t, dim))


class Bard(nn.Module):
    def __init__(self, vocab: int = 60, dim: int = 32, heads: int = 4, longest: int = 64) -> None:
        super().__init__()
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(longest, dim)
        self.line = nn.Embedding(len(RHYME), dim)
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = BeamAttention(dim, heads)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.out = nn.Linear(dim, vocab)

    def step(self, ids: Tensor, start: int, line: int, origin: Tensor | None = None) -> Tensor:
        at = torch.arange(start, start + ids.size(1), device=ids.device)
        h = self.tok(ids) + self.pos(at) + self.line.weight[line]
        h = h + self.att(self.n1(h), origin=origin)
        return self.out(h + self.ff(self.n2(h)))[:, -1].log_softmax(-1)

    @torch.no_grad()
    def beam(self, prompt: Tensor, width: int = 4, steps: int = 10, per_line: int = 3) -> Tensor:
        self.att.reset()
        ids = prompt.expand(width, -1)
        total = torch.full((width,), float("-inf"))
        total[0] = 0.0
        lp, origin = self.step(ids, 0, 0), None
        for n in range(steps):
            vocab = lp.size(-1)
            total, flat = (total[:, None] + lp).flatten().topk(width)
            origin = flat // vocab
            ids = torch.cat((ids[origin], (flat % vocab)[:, None]), 1)
            lp = self.step(ids[:, -1:], ids.size(1) - 1, min(n // per_line, 4), origin)
        return ids[total.argmax()]


if __name__ == "__main__":
    torch.manual_seed(1846)
    print(Bard().eval().beam(torch.tensor([[5, 9, 2]])).tolist())
