"""Decoder attention used by the long-document service.

Prompts are fed in chunks; feeding a prompt in chunks gives the same numbers as feeding it
at once.  Rotary embedding (half split) on absolute positions, causal, grouped KV heads.
"""
from dataclasses import dataclass, field
from typing import Optional

import torch
from torch import nn


@dataclass(frozen=True)
class AttnSpec:
    width: int
    n_q: int
    n_kv: int
    base: float = 500_000.0
    max_pos: int = 1024

    @property
    def hd(self):
        return self.width // self.n_q


@dataclass
class KVStore:
    keys: list = field(default_factory=list)
    values: list = field(default_factory=list)

    def __len__(self):
        return sum(k.shape[2] for k in self.keys)

    def push(self, k, v):
        self.keys.append(k)
        self.values.append(v)
        return torch.cat(self.keys, 2), torch.cat(self.values, 2)


class Rotary(nn.Module):
    def __init__(self, hd, base, max_pos):
        super().__init__()
        inv = base ** (-torch.arange(0, hd, 2).float() / hd)
        t = torch.outer(torch.arange(max_pos).float(), inv)
        self.register_buffer("cos", t.cos(), persistent=False)
        self.register_buffer("sin", t.sin(), persistent=False)

    def forward(self, x, start=0):
        n = x.shape[-2]
        c, s = self.cos[start:start + n], self.sin[start:start + n]
        a, b = x.chunk(2, dim=-1)
        return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


class ChunkedAttention(nn.Module):
    def __init__(self, spec: AttnSpec):
        super().__init__()
        self.spec = spec
        self.q = nn.Linear(spec.width, spec.n_q * spec.hd, bias=False)
        self.kv = nn.Linear(spec.width, 2 * spec.n_kv * spec.hd, bias=False)
        self.o = nn.Linear(spec.n_q * spec.hd, spec.width, bias=False)
        self.rotary = Rotary(spec.hd, spec.base, spec.max_pos)

    def forward(self, chunk: torch.Tensor, store: Optional[KVStore] = None):
        s = self.spec
        B, T, _ = chunk.shape
        q = self.q(chunk).view(B, T, s.n_q, s.hd).transpose(1, 2)
        k, v = self.kv(chunk).view(B, T, 2, s.n_kv, s.hd).permute(2, 0, 3, 1, 4)
        q = self.rotary(q)
        k = self.rotary(k)
        seen = 0
        if store is not None:
            seen = len(store)
            k, v = store.push(k, v)
        k = k.repeat_interleave(s.n_q // s.n_kv, dim=1)
        v = v.repeat_interleave(s.n_q // s.n_kv, dim=1)
        att = q @ k.transpose(-1, -2) / s.hd ** 0.5
        i = torch.arange(seen, seen + T, device=chunk.device)
        j = torch.arange(k.shape[2], device=chunk.device)
        att = att.masked_fill(j[None] > i[:, None], float("-inf"))
        y = att.softmax(-1) @ v
        return self.o(y.transpose(1, 2).flatten(2))


def prefill(layer: ChunkedAttention, x: torch.Tensor, size: int) -> torch.Tensor:
    store = KVStore()
    return torch.cat([layer(c, store) for c in x.split(size, dim=1)], dim=1)
