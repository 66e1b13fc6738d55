"""Paged key/value cache and decode attention, reference path of a serving engine.

Physical blocks live in one pool, [n_blocks, block_size, n_kv_heads, head_dim]. Each
request owns a list of block ids; logical token t is in slot t % block_size of block
t // block_size of that list. Query head h uses kv head h // (n_heads // n_kv_heads).
"""
from dataclasses import dataclass, field
from typing import Dict, List

import torch


class OutOfBlocks(RuntimeError):
    pass


@dataclass
class Request:
    rid: str
    blocks: List[int] = field(default_factory=list)
    length: int = 0


class BlockPool:
    def __init__(self, n_blocks, block_size, n_kv_heads, head_dim, dtype=torch.float32):
        self.block_size = block_size
        self.k = torch.full((n_blocks, block_size, n_kv_heads, head_dim), float("nan"), dtype=dtype)
        self.v = torch.full_like(self.k, float("nan"))
        self.free = list(range(n_blocks))[::-1]
        self.requests: Dict[str, Request] = {}

    def request(self, rid) -> Request:
        return self.requests.setdefault(rid, Request(rid))

    def append(self, rid, k, v):
        """k, v [n_new, n_kv_heads, head_dim]"""
        r = self.request(rid)
        for kk, vv in zip(k, v):
            if r.length % self.block_size == 0:
                if not self.free:
                    raise OutOfBlocks(rid)
                r.blocks.append(self.free.pop())
            b, s = r.blocks[-1], r.length % self.block_size
            self.k[b, s], self.v[b, s] = kk, vv
            r.length += 1

    def release(self, rid):
        self.free.extend(self.requests.pop(rid).blocks)


def paged_attention(q, pool, rids, scale=None):
    """q [n_req, n_heads, head_dim]: one new token for each request, whose key and value
    have been appended already. Returns [n_req, n_heads, head_dim]."""
    n_req, n_heads, d = q.shape
    scale = d**-0.5 if scale is None else scale
    group = n_heads // pool.k.shape[2]
    out = torch.zeros_like(q)
    for row, rid in enumerate(rids):
        r = pool.request(rid)
        if r.length == 0:
            continue
        qg = q[row].view(-1, group, d).float() * scale             # [kv, group, d]
        run_max = torch.full(qg.shape[:2], float("-inf"), dtype=qg.dtype)
        run_sum = torch.zeros(qg.shape[:2], dtype=qg.dtype)
        acc = torch.zeros_like(qg)
        left = r.length
        for b in r.blocks:
            n = min(left, pool.block_size)
            left -= n
            kb, vb = pool.k[b, :n].float(), pool.v[b, :n].float()  # [n, kv, d]
            s = torch.einsum("hgd,nhd->hgn", qg, kb)
            new_max = torch.maximum(run_max, s.amax(-1))
            fix = torch.exp(run_max - new_max)
            p = torch.exp(s - new_max[..., None])
            run_sum = run_sum * fix + p.sum(-1)
            acc = acc * fix[..., None] + torch.einsum("hgn,nhd->hgd", p, vb)
            run_max = new_max
        out[row] = (acc / run_sum[..., None]).reshape(n_heads, d).to(q.dtype)
    return out


def step(model_qkv, hidden, pool, rids):
    """One decode step for a batch: `model_qkv` is a callable giving q, k, v of the new token."""
    q, k, v = model_qkv(hidden)
    for i, rid in enumerate(rids):
        pool.append(rid, k[i : i + 1], v[i : i + 1])
    return paged_attention(q, pool, rids).flatten(1)
