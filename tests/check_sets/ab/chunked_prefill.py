from __future__ import annotations

import torch

NEG_INF = float("-inf")


class PagePool:
    """Fixed number of pages of `page` tokens each; a sequence owns a list of pages."""

    def __init__(self, num_pages: int, page: int, kv_heads: int, dim: int, dtype=torch.float32):
        self.page = page
        self.k = torch.zeros(num_pages, page, kv_heads, dim, dtype=dtype)
        self.v = torch.zeros_like(self.k)
        self.free = list(range(num_pages))[::-1]

    def alloc(self) -> int:
        if not self.free:
            raise RuntimeError("out of pages")
        return self.free.pop()

    def write(self, table: list[int], start: int, k: torch.Tensor, v: torch.Tensor) -> None:
        for i in range(k.shape[0]):
            slot = start + i
            if slot // self.page >= len(table):
                table.append(self.alloc())
            pg, off = table[slot // self.page], slot % self.page
            self.k[pg, off] = k[i]
            self.v[pg, off] = v[i]

    def gather(self, table: list[int], length: int):
        idx = torch.tensor(table)
        k = self.k[idx].flatten(0, 1)[:length]
        v = self.v[idx].flatten(0, 1)[:length]
        return k, v


class PrefillRunner:
    """Runs the prompt of one request in chunks so decode batches are not starved.

    Splitting the prompt is only a scheduling decision: the outputs are those of
    one big causal prefill.
    """

    def __init__(self, pool: PagePool, heads: int):
        self.pool = pool
        self.heads = heads
        self.table: list[int] = []
        self.length = 0

    def step(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        """q: [chunk, heads, dim]; k, v: [chunk, kv_heads, dim] (already rotated)"""
        n = q.shape[0]
        self.pool.write(self.table, self.length, k, v)
        self.length += n
        keys, vals = self.pool.gather(self.table, self.length)

        group = self.heads // keys.shape[1]
        keys = keys.repeat_interleave(group, dim=1)
        vals = vals.repeat_interleave(group, dim=1)

        logits = torch.einsum("qhd,khd->hqk", q, keys) * (q.shape[-1] ** -0.5)
        visible = torch.ones(n, self.length, dtype=torch.bool, device=q.device).tril()
        logits = logits.masked_fill(~visible, NEG_INF)
        probs = torch.softmax(logits, dim=-1, dtype=torch.float32).to(q.dtype)
        return torch.einsum("hqk,khd->qhd", probs, vals)


def chunked_prefill(q, k, v, chunk: int = 4, page: int = 4):
    n, heads, dim = q.shape
    pool = PagePool(num_pages=(n + page - 1) // page, page=page, kv_heads=k.shape[1], dim=dim, dtype=k.dtype)
    run = PrefillRunner(pool, heads)
    outs = [run.step(q[s:s + chunk], k[s:s + chunk], v[s:s + chunk]) for s in range(0, n, chunk)]
    return torch.cat(outs, dim=0)
