"""Decode step of a continuous-batching server (Llama checkpoints, static KV slots)."""
import dataclasses
import logging

import torch
import torch.nn as nn

log = logging.getLogger("serve")


@dataclasses.dataclass(frozen=True)
class ServeConfig:
    hidden: int = 64
    n_heads: int = 8
    n_kv_heads: int = 2
    max_slots: int = 4
    max_tokens: int = 32

    @property
    def head_dim(self):
        return self.hidden // self.n_heads


class SlotCache:
    """One row per request slot. `used[slot]` tokens are valid."""

    def __init__(self, cfg: ServeConfig, dtype=torch.float32):
        shape = (cfg.max_slots, cfg.n_kv_heads, cfg.max_tokens, cfg.head_dim)
        self.k = torch.zeros(shape, dtype=dtype)
        self.v = torch.zeros(shape, dtype=dtype)
        self.used = torch.zeros(cfg.max_slots, dtype=torch.long)

    def put(self, slots, k, v):
        at = self.used[slots]
        self.k[slots, :, at] = k
        self.v[slots, :, at] = v
        self.used[slots] = at + 1

    def drop(self, slot):
        self.used[slot] = 0


class DecodeAttention(nn.Module):
    """Grouped-query attention for one new token per running request.

    Weights are those of the Hugging Face Llama checkpoint: the n_heads // n_kv_heads
    consecutive query heads of a group share one key/value head.
    """

    def __init__(self, cfg: ServeConfig):
        super().__init__()
        self.cfg = cfg
        d = cfg.head_dim
        self.q_proj = nn.Linear(cfg.hidden, cfg.n_heads * d, bias=False)
        self.k_proj = nn.Linear(cfg.hidden, cfg.n_kv_heads * d, bias=False)
        self.v_proj = nn.Linear(cfg.hidden, cfg.n_kv_heads * d, bias=False)
        self.o_proj = nn.Linear(cfg.n_heads * d, cfg.hidden, bias=False)

    @torch.no_grad()
    def forward(self, x, slots, cache: SlotCache):
        """x [R, hidden], slots [R] (distinct slot numbers) -> [R, hidden]"""
        c = self.cfg
        R = x.shape[0]
        q = self.q_proj(x).view(R, c.n_heads, 1, c.head_dim)
        k = self.k_proj(x).view(R, c.n_kv_heads, c.head_dim)
        v = self.v_proj(x).view(R, c.n_kv_heads, c.head_dim)
        cache.put(slots, k, v)

        longest = int(cache.used[slots].max())
        keys = cache.k[slots, :, :longest]
        vals = cache.v[slots, :, :longest]
        rep = c.n_heads // c.n_kv_heads
        keys = keys.repeat(1, rep, 1, 1)
        vals = vals.repeat(1, rep, 1, 1)

        s = torch.matmul(q, keys.transpose(2, 3)).float() / c.head_dim ** 0.5
        live = torch.arange(longest)[None, :] < cache.used[slots][:, None]
        s = s.masked_fill(~live[:, None, None, :], float("-inf"))
        p = s.softmax(dim=-1).to(x.dtype)
        return self.o_proj(torch.matmul(p, vals).reshape(R, -1))


class Scheduler:
    def __init__(self, cfg):
        self.free = list(range(cfg.max_slots))
        self.running = {}

    def admit(self, request_id):
        if not self.free:
            log.warning("no free slot for %s", request_id)
            return None
        self.running[request_id] = self.free.pop(0)
        return self.running[request_id]

    def finish(self, request_id, cache):
        slot = self.running.pop(request_id)
        cache.drop(slot)
        self.free.append(slot)
