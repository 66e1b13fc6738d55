"""Mistral-style decode step over a rolling buffer.

The buffer holds the last ``window`` tokens, the present one included, so memory
does not grow with the length of the conversation.  Keys are stored already
rotated (half-split convention); the slot of position ``p`` is ``p % window``.
"""
from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn


class RollingState(NamedTuple):
    k: Tensor      # B, W, G, D
    v: Tensor      # B, W, G, D
    pos: int       # tokens seen so far


def _angles(pos: int, dim: int, base: float) -> tuple[Tensor, Tensor]:
    inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    a = pos * inv
    a = torch.cat([a, a])
    return a.cos().float(), a.sin().float()


def _rot(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    a, b = x.chunk(2, dim=-1)
    return x * cos.to(x) + torch.cat((-b, a), dim=-1) * sin.to(x)


class RollingAttention(nn.Module):
    def __init__(self, dim=48, heads=6, kv_heads=3, window=4, base=1e4):
        super().__init__()
        assert heads % kv_heads == 0
        self.h, self.g, self.d = heads, kv_heads, dim // heads
        self.window, self.base = window, base
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.d, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def init_state(self, batch: int) -> RollingState:
        z = self.q_proj.weight.new_zeros(batch, self.window, self.g, self.d)
        return RollingState(z, z.clone(), 0)

    def forward(self, x: Tensor, state: RollingState) -> tuple[Tensor, RollingState]:
        """x: [B, dim], one token per sequence."""
        B = x.shape[0]
        cos, sin = _angles(state.pos, self.d, self.base)
        q = _rot(self.q_proj(x).view(B, self.g, self.h // self.g, self.d), cos, sin)
        k = _rot(self.k_proj(x).view(B, self.g, self.d), cos, sin)
        v = self.v_proj(x).view(B, self.g, self.d)

        slot = state.pos % self.window
        kbuf, vbuf = state.k.clone(), state.v.clone()
        kbuf[:, slot], vbuf[:, slot] = k, v

        s = torch.einsum("bgrd,bwgd->bgrw", q, kbuf) / math.sqrt(self.d)
        # until the buffer has gone round once, its tail is empty
        empty = torch.arange(self.window, device=x.device) > state.pos
        s = s.masked_fill(empty, float("-inf"))
        p = torch.softmax(s, dim=-1)
        y = torch.einsum("bgrw,bwgd->bgrd", p, vbuf).reshape(B, -1)
        return self.o_proj(y), RollingState(kbuf, vbuf, state.pos + 1)


if __name__ == "__main__":
    torch.manual_seed(0)
    layer = RollingAttention()
    st = layer.init_state(2)
    for _ in range(9):
        y, st = layer(torch.randn(2, 48), st)
    print(y.shape, st.pos)
