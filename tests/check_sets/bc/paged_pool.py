"""Minimal paged KV cache à la vLLM, for teaching. One layer, CPU friendly."""
from dataclasses import dataclass, field
from typing import Dict, List

import torch


@dataclass
class Seq:
    blocks: List[int] = field(default_factory=list)
    length: int = 0


class PagedDecoder:
    """Holds pages [n_blocks, block, n_kv, d]; sequences own lists of pages.

    append(sid, k, v) stores one token (n_kv, d); attend(sids, q) answers one query per
    sequence, q (S, n_q, d), over all its stored tokens. Consecutive query heads share
    a kv head.
    """

    def __init__(self, n_blocks: int, block: int, n_kv: int, d: int, dtype=torch.float32):
        self.k = torch.zeros(n_blocks, block, n_kv, d, dtype=dtype)
        self.v = torch.zeros_like(self.k)
        self.block, self.n_kv, self.d = block, n_kv, d
        self.free = list(range(n_blocks))[::-1]
        self.seqs: Dict[int, Seq] = {}

    def append(self, sid: int, k: torch.Tensor, v: torch.Tensor) -> None:
        s = self.seqs.setdefault(sid, Seq())
        slot = s.length % self.block
        if slot == 0:
            if not self.free:
                raise MemoryError("no free page")
            s.blocks.append(self.free.pop())
        self.k[s.blocks[-1], slot] = k
        self.v[s.blocks[-1], slot] = v
        s.length += 1

    def release(self, sid: int) -> None:
        self.free.extend(self.seqs.pop(sid).blocks)

    def attend(self, sids: List[int], q: torch.Tensor) -> torch.Tensor:
        S, n_q, d = q.shape
        longest = max(len(self.seqs[i].blocks) for i in sids)
        table = torch.zeros(S, longest, dtype=torch.long)
        lens = torch.tensor([self.seqs[i].length for i in sids])
        for r, i in enumerate(sids):
            table[r, : len(self.seqs[i].blocks)] = torch.tensor(self.seqs[i].blocks)
        k = self.k[table].flatten(1, 2)  # S, T, n_kv, d
        v = self.v[table].flatten(1, 2)
        stale = torch.arange(k.shape[1])[None] >= lens[:, None]
        v = v.masked_fill(stale[:, :, None, None], 0)  # pages are recycled
        qg = q.view(S, self.n_kv, n_q // self.n_kv, d)
        s = torch.einsum("sgrd,stgd->sgrt", qg, k) * d**-0.5
        s = s.masked_fill(stale[:, None, None], float("-inf"))
        return torch.einsum("sgrt,stgd->sgrd", s.softmax(-1), v).reshape(S, n_q, d)
