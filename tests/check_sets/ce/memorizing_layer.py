"""Memorizing Transformer layer (Wu et al., ICLR 2022), single process, small scale.

Next to the usual causal attention inside the segment every head looks up the `top_k`
keys of an external memory that have the largest inner product with its query, and
attends to just these (softmax over the k retrieved logits, their values averaged with
these weights). A learned gate per head mixes both results:

    y = g * y_memory + (1 - g) * y_local,   g = sigmoid(b_h)

The memory is a pair (keys, values), each [batch, heads, N, d], not differentiated.
"""
from typing import Optional, Tuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Memory = Tuple[torch.Tensor, torch.Tensor]


class MemorizingLayer(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4, top_k: int = 3, capacity: int = 64):
        super().__init__()
        self.heads, self.top_k, self.capacity = heads, top_k, capacity
        self.norm = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)
        self.gate = nn.Parameter(torch.zeros(heads))

    def lookup(self, q: torch.Tensor, memory: Memory) -> torch.Tensor:
        keys, values = memory
        B, H, L, d = q.shape
        k = min(self.top_k, keys.size(2))
        sim = torch.einsum("bhld,bhnd->bhln", q, keys) * d ** -0.5
        best, where = sim.topk(k, dim=-1)
        # read the memory front to back, that is kinder to the disk cache
        where = where.sort(dim=-1).values
        index = where.reshape(B, H, L * k, 1).expand(-1, -1, -1, d)
        found = values.gather(2, index).view(B, H, L, k, d)
        return torch.einsum("bhlk,bhlkd->bhld", best.softmax(dim=-1), found)

    def forward(self, x: torch.Tensor, memory: Optional[Memory] = None):
        """x [B, L, dim] -> (y [B, L, dim], memory with this segment appended)."""
        B, L, D = x.shape
        q, k, v = self.qkv(self.norm(x)).view(B, L, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        if memory is not None:
            g = torch.sigmoid(self.gate).view(1, -1, 1, 1)
            y = g * self.lookup(q, memory) + (1 - g) * y
        out = x + self.proj(y.transpose(1, 2).reshape(B, L, D))
        return out, self.remember(k, v, memory)

    def remember(self, k, v, memory: Optional[Memory]) -> Memory:
        k, v = k.detach(), v.detach()
        if memory is not None:
            k = torch.cat([memory[0], k], dim=2)
            v = torch.cat([memory[1], v], dim=2)
        return k[:, :, -self.capacity:], v[:, :, -self.capacity:]
