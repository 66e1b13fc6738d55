"""Paged key/value storage for the decode workers.

Keys and values of all running sequences live in one pool of fixed-size pages.
A sequence owns a list of page ids (its table); token t of the sequence sits in
page table[t // page_size] at slot t % page_size.
"""
import math
from dataclasses import dataclass, field
from typing import List, Optional

import torch


class OutOfPages(RuntimeError):
    pass


@dataclass
class Sequence:
    seq_id: int
    table: List[int] = field(default_factory=list)
    length: int = 0


class PagePool:
    def __init__(self, n_layers, n_pages, page_size, n_kv_heads, head_dim, dtype=torch.float32):
        shape = (n_layers, n_pages, page_size, n_kv_heads, head_dim)
        self.k = torch.zeros(shape, dtype=dtype)
        self.v = torch.zeros(shape, dtype=dtype)
        self.page_size = page_size
        self._free = list(range(n_pages - 1, -1, -1))

    @property
    def n_free(self):
        return len(self._free)

    def reserve(self, seq: Sequence, n_tokens: int):
        """Make room for n_tokens more tokens of seq and return their flat slots."""
        need = -(-(seq.length + n_tokens) // self.page_size)
        while len(seq.table) < need:
            if not self._free:
                raise OutOfPages(f"sequence {seq.seq_id}: no page left")
            seq.table.append(self._free.pop())
        slots = []
        for t in range(seq.length, seq.length + n_tokens):
            slots.append(seq.table[t // self.page_size] * self.page_size + t % self.page_size)
        seq.length += n_tokens
        return torch.tensor(slots, dtype=torch.long)

    def write(self, layer, slots, k, v):
        """k, v: [n_tokens, n_kv_heads, head_dim]"""
        self.k[layer].flatten(0, 1)[slots] = k.to(self.k.dtype)
        self.v[layer].flatten(0, 1)[slots] = v.to(self.v.dtype)

    def release(self, seq: Sequence):
        self._free.extend(reversed(seq.table))
        seq.table.clear()
        seq.length = 0


def pack_tables(seqs: List[Sequence]):
    """Right-pads the tables with page 0, which the length mask hides again."""
    width = max(len(s.table) for s in seqs)
    tables = torch.zeros(len(seqs), width, dtype=torch.long)
    for row, s in enumerate(seqs):
        tables[row, :len(s.table)] = torch.tensor(s.table)
    lengths = torch.tensor([s.length for s in seqs])
    return tables, lengths


def paged_decode(query: torch.Tensor, pool: PagePool, layer: int, tables: torch.Tensor,
                 lengths: torch.Tensor, scale: Optional[float] = None) -> torch.Tensor:
    """One decode step for a batch of sequences.

    query:   [n_seqs, n_heads, head_dim], already rotated
    tables:  [n_seqs, max_pages]
    lengths: [n_seqs], the new token included (hence at least 1)
    Query head h belongs to kv head h // (n_heads // n_kv_heads).
    """
    n_seqs, n_heads, head_dim = query.shape
    if scale is None:
        scale = 1.0 / math.sqrt(head_dim)

    k = pool.k[layer][tables].flatten(1, 2)
    v = pool.v[layer][tables].flatten(1, 2)
    n_kv = k.shape[2]
    assert n_heads % n_kv == 0, "heads must be a multiple of kv heads"

    live = torch.arange(k.shape[1])[None, :] < lengths[:, None]
    v = v.masked_fill(~live[:, :, None, None], 0.0)

    grouped = query.view(n_seqs, n_kv, n_heads // n_kv, head_dim)
    logits = torch.einsum("sgrd,stgd->sgrt", grouped.float(), k.float()) * scale
    logits = logits.masked_fill(~live[:, None, None, :], float("-inf"))
    probs = torch.softmax(logits, dim=-1)
    out = torch.einsum("sgrt,stgd->sgrd", probs, v.float())
    return out.reshape(n_seqs, n_heads, head_dim).to(query.dtype)


class DecodeWorker:
    """Keeps the running batch; one call of step() appends one token for each sequence."""

    def __init__(self, pool: PagePool):
        self.pool = pool
        self.running: List[Sequence] = []

    def admit(self, seq_id, k, v, layer=0):
        seq = Sequence(seq_id)
        slots = self.pool.reserve(seq, k.shape[0])
        self.pool.write(layer, slots, k, v)
        self.running.append(seq)
        return seq

    def step(self, layer, q, k, v):
        slots = torch.cat([self.pool.reserve(s, 1) for s in self.running])
        self.pool.write(layer, slots, k, v)
        tables, lengths = pack_tables(self.running)
        return paged_decode(q, self.pool, layer, tables, lengths)

    def finish(self, seq_id):
        for s in [s for s in self.running if s.seq_id == seq_id]:
            self.pool.release(s)
            self.running.remove(s)
