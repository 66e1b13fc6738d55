"""Continuous batching, decode step only.

Requests are registered, their prompt keys are appended, then each step appends
one token per request and attends for the whole running batch. Weights come
from Llama-3 checkpoints: query head h belongs to kv head h // n_rep.
"""
from typing import Dict, List
import torch


class Request:
    __slots__ = ("rid", "k", "v", "done")

    def __init__(self, rid: int):
        self.rid = rid
        self.k: List[torch.Tensor] = []
        self.v: List[torch.Tensor] = []
        self.done = False

    def __len__(self):
        return sum(t.shape[0] for t in self.k)


class DecodeEngine:
    def __init__(self, n_heads: int, n_kv_heads: int, head_dim: int, device: str = "cpu"):
        assert n_heads % n_kv_heads == 0
        self.n_heads, self.n_kv_heads, self.head_dim = n_heads, n_kv_heads, head_dim
        self.n_rep = n_heads // n_kv_heads
        self.device = device
        self.requests: Dict[int, Request] = {}

    def register(self, rid: int) -> None:
        self.requests[rid] = Request(rid)

    def finish(self, rid: int) -> None:
        del self.requests[rid]

    def append(self, rid: int, k: torch.Tensor, v: torch.Tensor) -> None:
        """k, v [T, n_kv_heads, head_dim], T = prompt length or 1"""
        r = self.requests[rid]
        r.k.append(k.to(self.device))
        r.v.append(v.to(self.device))

    def _batch(self, rids):
        """-> k, v [B, n_kv, Smax, d], keep [B, Smax]"""
        lens = [len(self.requests[r]) for r in rids]
        shape = (len(rids), self.n_kv_heads, max(lens), self.head_dim)
        k, v = torch.zeros(shape, device=self.device), torch.zeros(shape, device=self.device)
        for i, r in enumerate(rids):
            k[i, :, : lens[i]] = torch.cat(self.requests[r].k).transpose(0, 1)
            v[i, :, : lens[i]] = torch.cat(self.requests[r].v).transpose(0, 1)
        keep = torch.arange(max(lens), device=self.device)[None] < torch.tensor(lens, device=self.device)[:, None]
        return k, v, keep

    def attend(self, rids: List[int], q: torch.Tensor) -> torch.Tensor:
        """q [B, n_heads, head_dim], the newest token of each request -> [B, n_heads, head_dim]"""
        k, v, keep = self._batch(rids)
        if self.n_rep > 1:
            k = k.repeat(1, self.n_rep, 1, 1)
            v = v.repeat(1, self.n_rep, 1, 1)
        s = torch.matmul(k, q.unsqueeze(-1)).squeeze(-1) * self.head_dim ** -0.5
        s = s.masked_fill(~keep[:, None, :], float("-inf"))
        p = s.float().softmax(dim=-1).to(q.dtype)
        return torch.matmul(p.unsqueeze(2), v).squeeze(2)
