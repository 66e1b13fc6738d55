"""Paged key/value store used by the token server.

Every sequence owns a chain of fixed-size pages taken from one common pool.
`attend` is causal: the T queries given are the *last* T tokens of the
sequence, whose keys must have been appended before.
"""
from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch


class PoolExhausted(RuntimeError):
    pass


@dataclass
class _Chain:
    pages: list[int] = field(default_factory=list)
    length: int = 0


class KVPagePool:
    """One layer's pages.

    k, v given to `append`: [T, n_kv, d];  q given to `attend`: [T, n_heads, d].
    Query head h reads kv head h // (n_heads // n_kv).
    """

    def __init__(self, n_pages: int, page_size: int, n_heads: int, n_kv: int,
                 head_dim: int, dtype=torch.float32):
        if n_heads % n_kv:
            raise ValueError("n_heads must be a multiple of n_kv")
        self.page_size = page_size
        self.n_heads, self.n_kv, self.d = n_heads, n_kv, head_dim
        self._k = torch.full((n_pages, page_size, n_kv, head_dim), float("nan"), dtype=dtype)
        self._v = torch.full_like(self._k, float("nan"))
        self._free = list(range(n_pages - 1, -1, -1))
        self._chains: dict[str, _Chain] = {}

    # -- life cycle ---------------------------------------------------------
    def register(self, seq_id: str) -> None:
        if seq_id in self._chains:
            raise KeyError(f"{seq_id} is already registered")
        self._chains[seq_id] = _Chain()

    def release(self, seq_id: str) -> None:
        chain = self._chains.pop(seq_id)
        self._free.extend(chain.pages)

    def append(self, seq_id: str, k: torch.Tensor, v: torch.Tensor) -> int:
        chain = self._chains[seq_id]
        for t in range(k.shape[0]):
            slot = chain.length % self.page_size
            if slot == 0:
                if not self._free:
                    raise PoolExhausted(seq_id)
                chain.pages.append(self._free.pop())
            page = chain.pages[-1]
            self._k[page, slot] = k[t]
            self._v[page, slot] = v[t]
            chain.length += 1
        return chain.length

    # -- compute ------------------------------------------------------------
    def _gather(self, store: torch.Tensor, chain: _Chain) -> torch.Tensor:
        flat = store[chain.pages].reshape(-1, self.n_kv, self.d)
        return flat[: chain.length]

    def attend(self, seq_id: str, q: torch.Tensor) -> torch.Tensor:
        chain = self._chains[seq_id]
        k, v = self._gather(self._k, chain), self._gather(self._v, chain)
        t, s = q.shape[0], chain.length
        group = self.n_heads // self.n_kv
        q = q.view(t, self.n_kv, group, self.d)
        logits = torch.einsum("tngd,snd->ngts", q, k) / math.sqrt(self.d)
        last_visible = torch.arange(s - t, s).unsqueeze(1)
        hidden = torch.arange(s).unsqueeze(0) > last_visible
        logits = logits.masked_fill(hidden, float("-inf"))
        p = torch.softmax(logits.float(), dim=-1).to(v.dtype)
        return torch.einsum("ngts,snd->tngd", p, v).reshape(t, self.n_heads, self.d)
