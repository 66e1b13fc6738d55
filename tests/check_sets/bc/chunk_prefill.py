"""Chunked prefill experiments.

Long prompts are fed in chunks so that the activation memory stays flat. The layer keeps
keys and values of earlier chunks and must give what one big pass would give.
"""
from __future__ import annotations

import torch
from torch import Tensor, nn


class KVStore:
    """Pre-allocated store, grows by doubling."""

    def __init__(self) -> None:
        self.n = 0
        self._k: Tensor | None = None
        self._v: Tensor | None = None

    def extend(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        need = self.n + k.shape[2]
        if self._k is None:
            self._k = k.new_empty(*k.shape[:2], need, k.shape[3])
            self._v = torch.empty_like(self._k)
        elif need > self._k.shape[2]:
            room = max(need, 2 * self._k.shape[2])
            for name in ("_k", "_v"):
                old = getattr(self, name)
                new = old.new_empty(*old.shape[:2], room, old.shape[3])
                new[:, :, : self.n] = old[:, :, : self.n]
                setattr(self, name, new)
        self._k[:, :, self.n : need] = k
        self._v[:, :, self.n : need] = v
        self.n = need
        return self._k[:, :, :need], self._v[:, :, :need]


class ChunkedSelfAttention(nn.Module):
    """Causal self-attention; forward(chunk, store) continues where the store ends."""

    def __init__(self, dim: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, store: KVStore | None = None) -> Tensor:
        b, n, c = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        if store is not None:
            k, v = store.extend(k, v)
        scores = q @ k.transpose(-1, -2) / (c // self.heads) ** 0.5
        if n > 1:
            m = k.shape[2]
            visible = torch.ones(n, m, dtype=torch.bool, device=x.device).tril()
            scores = scores.masked_fill(~visible, float("-inf"))
        y = scores.softmax(dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, n, c))


@torch.no_grad()
def prefill(layer: ChunkedSelfAttention, x: Tensor, chunk: int) -> Tensor:
    store = KVStore()
    return torch.cat([layer(part, store) for part in x.split(chunk, dim=1)], dim=1)
