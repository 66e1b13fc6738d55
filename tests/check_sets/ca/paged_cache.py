"""Paged KV cache of the chat server (one layer, decode only).

The pool is one tensor of ``num_blocks * block_size`` rows; block ``b`` owns the rows
``b * block_size ... (b + 1) * block_size - 1``.  A request has a list of blocks, which
need not be neighbours, and fills them in order.
"""
from collections import deque
from typing import Dict, List

import torch


class PagedKVCache:
    def __init__(self, num_blocks: int, block_size: int, heads: int, dim: int):
        self.block_size = block_size
        self.k_pool = torch.zeros(num_blocks * block_size, heads, dim)
        self.v_pool = torch.zeros(num_blocks * block_size, heads, dim)
        self.free = deque(range(num_blocks))
        self.blocks: Dict[str, List[int]] = {}
        self.length: Dict[str, int] = {}

    def append(self, req: str, k: torch.Tensor, v: torch.Tensor) -> None:
        blocks = self.blocks.setdefault(req, [])
        pos = self.length.get(req, 0)
        if pos == len(blocks) * self.block_size:
            if not self.free:
                raise RuntimeError("KV pool exhausted")
            blocks.append(self.free.popleft())
        slot = blocks[pos // self.block_size] * self.block_size + pos % self.block_size
        self.k_pool[slot] = k
        self.v_pool[slot] = v
        self.length[req] = pos + 1

    def slots(self, req: str) -> torch.Tensor:
        """Pool rows of the request, oldest token first."""
        blocks = torch.tensor(self.blocks[req])
        rows = blocks[:, None] + torch.arange(self.block_size)[None, :]
        return rows.reshape(-1)[: self.length[req]]

    def release(self, req: str) -> None:
        self.free.extend(self.blocks.pop(req, []))
        self.length.pop(req, None)


class PagedDecoder:
    """decode(): one token per request, requests may have any length so far."""

    def __init__(self, heads: int = 4, dim: int = 8, num_blocks: int = 32, block_size: int = 4):
        self.cache = PagedKVCache(num_blocks, block_size, heads, dim)
        self.scale = dim ** -0.5

    def attend(self, req: str, q: torch.Tensor) -> torch.Tensor:
        rows = self.cache.slots(req)
        k, v = self.cache.k_pool[rows], self.cache.v_pool[rows]     # T, heads, dim
        s = torch.einsum("hd,thd->ht", q, k) * self.scale
        p = torch.softmax(s, dim=-1)
        return torch.einsum("ht,thd->hd", p, v)

    @torch.no_grad()
    def decode(self, reqs: List[str], q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q, k, v: [len(reqs), heads, dim] of the newest token of every request."""
        out = []
        for i, req in enumerate(reqs):
            self.cache.append(req, k[i], v[i])
            out.append(self.attend(req, q[i]))
        return torch.stack(out)


if __name__ == "__main__":
    torch.manual_seed(0)
    dec = PagedDecoder()
    for _ in range(9):
        y = dec.decode(["a", "b"], *torch.randn(3, 2, 4, 8))
    print(y.shape, dec.cache.blocks)
