"""Attention used by the completion server, with chunked prefill.

A long prompt is fed in chunks so that other requests are not starved.  Every call
appends the keys and values of the new tokens to the cache and attends causally over
everything that the cache holds.  No positional term here, it is added to the embeddings.
"""
from __future__ import annotations

from dataclasses import dataclass, field

import torch
import torch.nn.functional as F
from torch import nn


@dataclass
class LayerCache:
    k: torch.Tensor | None = None
    v: torch.Tensor | None = None
    seen: int = field(default=0)

    def append(self, k: torch.Tensor, v: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k = torch.cat((self.k, k), dim=2)
            self.v = torch.cat((self.v, v), dim=2)
        self.seen = self.k.size(2)
        return self.k, self.v


class CachedSelfAttention(nn.Module):
    def __init__(self, hidden: int = 40, heads: int = 5) -> None:
        super().__init__()
        if hidden % heads:
            raise ValueError("hidden must be a multiple of heads")
        self.heads = heads
        self.in_proj = nn.Linear(hidden, 3 * hidden)
        self.out_proj = nn.Linear(hidden, hidden)

    def _heads(self, t: torch.Tensor) -> torch.Tensor:
        return t.unflatten(-1, (self.heads, -1)).transpose(1, 2)

    def forward(self, x: torch.Tensor, cache: LayerCache | None = None) -> torch.Tensor:
        q, k, v = (self._heads(t) for t in self.in_proj(x).chunk(3, dim=-1))
        if cache is not None:
            k, v = cache.append(k, v)
        # a single new token may look at everything, no mask needed then
        y = F.scaled_dot_product_attention(q, k, v, is_causal=q.size(2) > 1)
        return self.out_proj(y.transpose(1, 2).flatten(2))


class PrefillRunner:
    """Feeds a prompt through one layer, ``chunk`` tokens at a time."""

    def __init__(self, layer: CachedSelfAttention | None = None, chunk: int = 4) -> None:
        self.layer = layer or CachedSelfAttention()
        self.chunk = chunk

    @torch.no_grad()
    def __call__(self, prompt: torch.Tensor) -> torch.Tensor:
        cache = LayerCache()
        parts = [self.layer(piece, cache) for piece in prompt.split(self.chunk, dim=1)]
        return torch.cat(parts, dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(PrefillRunner()(torch.randn(1, 10, 40)).shape)
