"""Paged KV cache for the night-bus dispatcher assistant (one GPU, many short chats).

Keys and values live in fixed blocks of ``block`` slots.  A chat owns a list of block
numbers (its table); the order of the table is the order of the tokens.
"""
from collections import defaultdict

import torch


class OutOfBlocks(RuntimeError):
    pass


class PagedRuntime:
    """Multi-query-group decode attention over a paged cache.

    q of one step: [H, d]; k, v of one step: [G, d], G divides H; query heads
    g*(H/G) .. (g+1)*(H/G)-1 read group g.  The new token is appended before it attends.
    """

    def __init__(self, n_blocks, block, heads, groups, dim, dtype=torch.float32):
        self.block, self.heads, self.groups, self.dim = block, heads, groups, dim
        self.kpool = torch.zeros(n_blocks, block, groups, dim, dtype=dtype)
        self.vpool = torch.zeros(n_blocks, block, groups, dim, dtype=dtype)
        self.free = list(range(n_blocks))[::-1]
        self.tables = defaultdict(list)
        self.length = defaultdict(int)

    def _slot(self, chat):
        n = self.length[chat]
        if n % self.block == 0:
            if not self.free:
                raise OutOfBlocks(chat)
            self.tables[chat].append(self.free.pop())
        self.length[chat] = n + 1
        return self.tables[chat][n // self.block], n % self.block

    def append(self, chat, k, v):
        b, o = self._slot(chat)
        self.kpool[b, o] = k
        self.vpool[b, o] = v

    def release(self, chat):
        self.free.extend(self.tables.pop(chat, []))
        self.length.pop(chat, None)

    @torch.no_grad()
    def step(self, chats, q, k, v):
        """One decode step for a batch of chats: q [B, H, d], k and v [B, G, d] -> [B, H, d]."""
        for i, chat in enumerate(chats):
            self.append(chat, k[i], v[i])
        lens = torch.tensor([self.length[c] for c in chats])
        width = max(len(self.tables[c]) for c in chats)
        # tables of different length are filled up with block 0; those slots are masked below
        table = torch.tensor([self.tables[c] + [0] * (width - len(self.tables[c])) for c in chats])
        keys = self.kpool[table].flatten(1, 2)          # [B, width*block, G, d]
        vals = self.vpool[table].flatten(1, 2)
        B, S = keys.shape[:2]
        qg = q.view(B, self.groups, self.heads // self.groups, self.dim)
        s = torch.einsum("bgrd,bsgd->bgrs", qg.float(), keys.float()) * self.dim ** -0.5
        dead = torch.arange(S)[None, :] >= lens[:, None]
        s = s.masked_fill(dead[:, None, None, :], float("-inf"))
        p = torch.softmax(s, dim=-1)
        return torch.einsum("bgrs,bsgd->bgrd", p, vals.float()).reshape(B, self.heads, self.dim).to(q.dtype)


def simulate(n_steps=5):
    rt = PagedRuntime(n_blocks=8, block=2, heads=4, groups=2, dim=8)
    for t in range(n_steps):
        live = ["N3", "N17"] if t < 3 else ["N17"]
        q = torch.randn(len(live), 4, 8)
        kv = torch.randn(2, len(live), 2, 8)
        out = rt.step(live, q, kv[0], kv[1])
        if t == 2:
            rt.release("N3")
    return out


if __name__ == "__main__":
    print(simulate().shape)
