"""Continuous batching with a fixed number of slots.

The cache has [slots, heads, capacity, dim].  Each step decodes one token for every slot, busy
or not, since the compiled graph has a fixed shape.  An idle slot has length 0; nothing is read
from its logits, but they have to be finite (the sampler checks the whole batch at once).
"""
from typing import Dict, List, Optional

import torch
from torch import nn


class SlotCacheAttention(nn.Module):
    def __init__(self, dim: int, heads: int, slots: int, capacity: int):
        super().__init__()
        self.heads, self.hd = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        shape = (slots, heads, capacity, self.hd)
        self.register_buffer("k_cache", torch.zeros(shape), persistent=False)
        self.register_buffer("v_cache", torch.zeros(shape), persistent=False)

    @staticmethod
    def bias(lengths: torch.Tensor, holes: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        """[slots, capacity] additive, 0 = visible"""
        low = torch.finfo(dtype).min
        pos = torch.arange(holes.size(1), device=holes.device)
        beyond = torch.zeros(holes.shape, dtype=dtype, device=holes.device)
        beyond = beyond.masked_fill(pos[None, :] >= lengths[:, None], low)
        hole_bias = torch.zeros_like(beyond).masked_fill(holes, low)
        return beyond + hole_bias

    def forward(self, x: torch.Tensor, lengths: torch.Tensor, holes: torch.Tensor) -> torch.Tensor:
        """
        x       [slots, dim]       one new token for each slot
        lengths [slots]            tokens in the slot, the new one included (0 = idle)
        holes   [slots, capacity]  True where an evicted or padded prompt token used to be;
                                   an idle slot is all holes
        """
        n, d = x.shape
        q, k, v = self.qkv(x).view(n, 3, self.heads, self.hd).unbind(1)
        rows, at = torch.arange(n, device=x.device), (lengths - 1).clamp(min=0)
        self.k_cache[rows, :, at] = k
        self.v_cache[rows, :, at] = v
        s = torch.einsum("nhd,nhcd->nhc", q, self.k_cache) / self.hd ** 0.5
        p = torch.softmax(s + self.bias(lengths, holes, s.dtype)[:, None, :], dim=-1)
        return self.proj(torch.einsum("nhc,nhcd->nhd", p, self.v_cache).reshape(n, d))


class SlotModel(nn.Module):
    def __init__(self, vocab=128, dim=64, heads=4, layers=2, slots=4, capacity=48):
        super().__init__()
        self.slots, self.capacity = slots, capacity
        self.tok, self.pos = nn.Embedding(vocab, dim), nn.Embedding(capacity, dim)
        self.att = nn.ModuleList(SlotCacheAttention(dim, heads, slots, capacity) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
                                for _ in range(layers))
        self.n = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.end = nn.LayerNorm(dim)

    def forward(self, ids, lengths, holes):
        x = self.tok(ids) + self.pos((lengths - 1).clamp(min=0))
        for att, ff, n in zip(self.att, self.ff, self.n):
            x = x + att(n(x), lengths, holes)
            x = x + ff(x)
        return self.end(x) @ self.tok.weight.T


class Scheduler:
    def __init__(self, model: SlotModel, eos: int):
        self.m, self.eos = model, eos
        self.prompt: List[Optional[List[int]]] = [None] * model.slots
        self.text: List[List[int]] = [[] for _ in range(model.slots)]
        self.owner: List[Optional[str]] = [None] * model.slots
        self.lengths = torch.zeros(model.slots, dtype=torch.long)
        self.holes = torch.ones(model.slots, model.capacity, dtype=torch.bool)
        self.ready: Dict[str, List[int]] = {}

    def submit(self, name: str, prompt: List[int]) -> bool:
        for s, o in enumerate(self.owner):
            if o is None:
                self.owner[s], self.prompt[s], self.text[s] = name, list(prompt), []
                self.lengths[s], self.holes[s] = 0, False
                return True
        return False

    @torch.no_grad()
    def step(self):
        ids = torch.zeros(self.m.slots, dtype=torch.long)
        for s, o in enumerate(self.owner):
            if o is not None:
                seq = self.prompt[s] + self.text[s]
                ids[s] = seq[int(self.lengths[s])]
                self.lengths[s] += 1
        logits = self.m(ids, self.lengths, self.holes)
        if not torch.isfinite(logits).all():
            raise FloatingPointError("bad logits")
        for s, o in enumerate(self.owner):
            if o is not None and int(self.lengths[s]) == len(self.prompt[s]) + len(self.text[s]):
                nxt = int(logits[s].argmax())
                self.text[s].append(nxt)
                if nxt == self.eos or int(self.lengths[s]) >= self.m.capacity:
                    self.ready[o], self.owner[s] = self.text[s], None
                    self.lengths[s], self.holes[s] = 0, True
