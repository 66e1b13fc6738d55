from __future__ import annotations

import torch
from torch import nn


class KVCache:
    def __init__(self):
        self.k: torch.Tensor | None = None
        self.v: torch.Tensor | None = None

    def append(self, k, v):
        self.k = k if self.k is None else torch.cat((self.k, k), dim=-2)
        self.v = v if self.v is None else torch.cat((self.v, v), dim=-2)
        return self.k, self.v


class CachedSelfAttention(nn.Module):
    """Causal; with a cache the new tokens follow those that it holds."""

    def __init__(self, d_model: int, n_head: int):
        super().__init__()
        self.n_head = n_head
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model, bias=False)
        self.value = nn.Linear(d_model, d_model)
        self.out = nn.Linear(d_model, d_model)

    def forward(self, x: torch.Tensor, cache: KVCache | None = None):
        heads = lambda z: z.view(*z.shape[:2], self.n_head, -1).permute(0, 2, 1, 3)
        q, k, v = heads(self.query(x)), heads(self.key(x)), heads(self.value(x))
        if cache is not None:
            k, v = cache.append(k, v)
        n_new, n_all = q.shape[-2], k.shape[-2]
        mask = torch.full((n_new, n_all), float("-inf"), device=x.device, dtype=x.dtype).triu(1 + n_all - n_new)
        w = torch.softmax(q @ k.transpose(-1, -2) * (q.shape[-1] ** -0.5) + mask, dim=-1)
        return self.out((w @ v).permute(0, 2, 1, 3).flatten(start_dim=2))
