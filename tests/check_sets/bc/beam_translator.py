"""Beam-search decoder attention of the Quechua-Spanish translator."""
from typing import Optional

import torch
from torch import Tensor, nn


class IncrementalAttention(nn.Module):
    """Causal self-attention, one token per step, with state for beam search.

    step(x) with x (beams, dim) appends a token per beam and returns (beams, dim).
    reorder(origin) is called between steps: beam i goes on from the history of beam
    origin[i].
    """

    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads, self.size = heads, dim // heads
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)
        self.keys: Optional[Tensor] = None
        self.values: Optional[Tensor] = None

    def clear(self):
        self.keys = self.values = None

    def _h(self, t: Tensor) -> Tensor:
        return t.view(len(t), self.heads, 1, self.size)

    def step(self, x: Tensor) -> Tensor:
        q, k, v = self._h(self.q(x)), self._h(self.k(x)), self._h(self.v(x))
        if self.keys is not None:
            k = torch.cat([self.keys, k], dim=2)
            v = torch.cat([self.values, v], dim=2)
        self.keys, self.values = k, v
        w = (q @ k.transpose(2, 3) / self.size**0.5).float().softmax(-1).to(v.dtype)
        return self.o((w @ v).flatten(1))

    def reorder(self, origin: Tensor) -> None:
        if self.keys is not None:
            self.keys = self.keys.index_select(0, origin)

    def forward(self, x: Tensor) -> Tensor:
        """Teacher forcing, x (B, L, dim)."""
        self.clear()
        y = torch.stack([self.step(t) for t in x.unbind(1)], dim=1)
        self.clear()
        return y


def advance(log_p: Tensor, scores: Tensor, width: int):
    """log_p (beams, vocab), scores (beams,) -> best tokens, their origin, new scores"""
    total = (scores[:, None] + log_p).flatten()
    best, idx = total.topk(width)
    return idx % log_p.shape[1], idx // log_p.shape[1], best


@torch.no_grad()
def translate(att, emb, head, bos, width=3, steps=5):
    tok = torch.full((width,), bos)
    scores = torch.tensor([0.0] + [-1e4] * (width - 1))
    out = tok[:, None]
    for _ in range(steps):
        log_p = head(att.step(emb(tok))).log_softmax(-1)
        tok, origin, scores = advance(log_p, scores, width)
        att.reorder(origin)
        out = torch.cat([out[origin], tok[:, None]], 1)
    return out[0]
