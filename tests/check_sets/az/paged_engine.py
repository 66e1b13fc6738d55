"""Minimal continuous-batching engine with a paged KV cache.

Memory is cut into blocks of `block_size` tokens.  A sequence owns a list of blocks (its
block table); token number p of a sequence lives in block table[p // block_size] at
offset p % block_size.  Blocks of different sequences are mixed in the same pool.
"""
from collections import deque
from dataclasses import dataclass, field
from typing import Dict, List

import torch
from torch import Tensor, nn


@dataclass
class EngineConfig:
    hidden: int = 64
    num_heads: int = 8
    num_kv_heads: int = 4
    block_size: int = 4
    num_blocks: int = 64
    max_batch: int = 8

    def __post_init__(self):
        assert self.hidden % self.num_heads == 0
        assert self.num_heads % self.num_kv_heads == 0

    @property
    def head_dim(self) -> int:
        return self.hidden // self.num_heads


class BlockManager:
    def __init__(self, cfg: EngineConfig):
        self.bs = cfg.block_size
        self.free = deque(range(cfg.num_blocks))
        self.tables: Dict[int, List[int]] = {}
        self.lengths: Dict[int, int] = {}

    def append(self, seq_id: int, n: int) -> Tensor:
        """Make room for n more tokens of the sequence; returns their flat slots."""
        table = self.tables.setdefault(seq_id, [])
        start = self.lengths.get(seq_id, 0)
        while len(table) * self.bs < start + n:
            if not self.free:
                raise MemoryError("out of KV blocks")
            table.append(self.free.popleft())
        self.lengths[seq_id] = start + n
        return torch.tensor([table[p // self.bs] * self.bs + p % self.bs for p in range(start, start + n)])

    def release(self, seq_id: int) -> None:
        self.free.extend(self.tables.pop(seq_id, []))
        self.lengths.pop(seq_id, None)


@dataclass
class Step:
    """What one forward pass works on; the tokens of all sequences lie one after another."""
    slots: Tensor                 # [n_tokens]     where the new keys and values go
    positions: Tensor             # [n_tokens]     place of each new token in its own sequence
    rows: Tensor                  # [n_tokens]     row of block_tables the token belongs to
    block_tables: Tensor          # [n_seqs, max_blocks], filled up with 0
    seq_ids: List[int] = field(default_factory=list)


def plan(manager: BlockManager, work: Dict[int, int]) -> Step:
    """work: sequence id -> number of new tokens (whole prompt, a chunk of it, or 1)."""
    slots, pos, rows = [], [], []
    for row, (sid, n) in enumerate(work.items()):
        before = manager.lengths.get(sid, 0)
        slots.append(manager.append(sid, n))
        pos.append(torch.arange(before, before + n))
        rows.append(torch.full((n,), row))
    width = max(len(manager.tables[s]) for s in work)
    tables = torch.zeros(len(work), width, dtype=torch.long)
    for row, sid in enumerate(work):
        t = manager.tables[sid]
        tables[row, :len(t)] = torch.tensor(t)
    return Step(torch.cat(slots), torch.cat(pos), torch.cat(rows), tables, list(work))


class PagedAttention(nn.Module):
    def __init__(self, cfg: EngineConfig):
        super().__init__()
        self.cfg = cfg
        kv = cfg.num_kv_heads * cfg.head_dim
        self.qkv_sizes = [cfg.hidden, kv, kv]
        self.qkv = nn.Linear(cfg.hidden, sum(self.qkv_sizes), bias=False)
        self.out = nn.Linear(cfg.hidden, cfg.hidden, bias=False)
        pool = (cfg.num_blocks * cfg.block_size, cfg.num_kv_heads, cfg.head_dim)
        self.register_buffer("k_pool", torch.zeros(pool), persistent=False)
        self.register_buffer("v_pool", torch.zeros(pool), persistent=False)

    @torch.no_grad()
    def forward(self, x: Tensor, step: Step) -> Tensor:
        c = self.cfg
        n = x.shape[0]
        q, k, v = self.qkv(x).split(self.qkv_sizes, dim=-1)
        self.k_pool[step.slots] = k.view(n, c.num_kv_heads, c.head_dim)
        self.v_pool[step.slots] = v.view(n, c.num_kv_heads, c.head_dim)

        offs = torch.arange(c.block_size, device=x.device)
        where = (step.block_tables[:, :, None] * c.block_size + offs).flatten(1)      # [seqs, ctx]
        keys = self.k_pool[where][step.rows]                                          # [n, ctx, kv, d]
        vals = self.v_pool[where][step.rows]
        # key number j of the gathered context is token j of the sequence: later tokens,
        # unused offsets and filler blocks all have j beyond the query's own position
        ctx = torch.arange(where.shape[1], device=x.device)
        hidden = ctx[None] > step.positions[:, None]

        q = q.view(n, c.num_kv_heads, c.num_heads // c.num_kv_heads, c.head_dim)
        s = torch.einsum("nkgd,nskd->nkgs", q.float(), keys.float()) * c.head_dim ** -0.5
        s = s.masked_fill(hidden[:, None, None], float("-inf"))
        p = s.softmax(-1)
        o = torch.einsum("nkgs,nskd->nkgd", p, vals.float()).to(x.dtype)
        return self.out(o.reshape(n, c.hidden))


class Engine:
    def __init__(self, cfg: EngineConfig, attention: PagedAttention):
        self.cfg, self.attention = cfg, attention
        self.manager = BlockManager(cfg)
        self.waiting: deque = deque()
        self.running: List[int] = []

    def submit(self, seq_id: int, prompt: Tensor) -> None:
        self.waiting.append((seq_id, prompt))

    def step(self, last: Dict[int, Tensor]) -> Dict[int, Tensor]:
        """last: newest hidden state [1, hidden] of every running sequence."""
        xs = {s: last[s] for s in self.running}
        while self.waiting and len(xs) < self.cfg.max_batch:
            sid, prompt = self.waiting.popleft()
            xs[sid] = prompt
            self.running.append(sid)
        st = plan(self.manager, {s: x.shape[0] for s, x in xs.items()})
        y = self.attention(torch.cat(list(xs.values())), st)
        return dict(zip(xs, y.split([x.shape[0] for x in xs.values()])))

    def finish(self, seq_id: int) -> None:
        self.running.remove(seq_id)
        self.manager.release(seq_id)


if __name__ == "__main__":
    torch.manual_seed(0)
    cfg = EngineConfig()
    eng = Engine(cfg, PagedAttention(cfg))
    eng.submit(1, torch.randn(6, 64))
    out = eng.step({})
    eng.submit(2, torch.randn(9, 64))
    out = eng.step({1: out[1][-1:]})
    print({s: tuple(o.shape) for s, o in out.items()})
