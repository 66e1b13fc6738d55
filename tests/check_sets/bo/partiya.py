"""Генератор шахматных партий: декодер ходов с KV-кэшем.

Ход кодируется одним токеном (from*64+to).  Позиция в партии (полуход) даётся
вращением RoPE, поэтому кэш хранит уже повёрнутые ключи.
"""
from typing import Dict, Optional

import torch
import torch.nn as nn

ПОЛЕЙ = 64


def uci_v_token(uci: str) -> int:
    """'e2e4' -> номер токена"""
    f = (ord(uci[0]) - 97) + 8 * (int(uci[1]) - 1)
    t = (ord(uci[2]) - 97) + 8 * (int(uci[3]) - 1)
    return f * ПОЛЕЙ + t


def rope(x: torch.Tensor, pos: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """x: [B, H, L, d], pos: [L]; вращаются половины (d/2, d/2)."""
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, device=x.device, dtype=torch.float32) / half)
    ang = pos.float()[:, None] * freq[None, :]
    cos, sin = ang.cos(), ang.sin()
    x1, x2 = x[..., :half], x[..., half:]
    return torch.cat([x1 * cos - x2 * sin, x2 * cos + x1 * sin], dim=-1).to(x.dtype)




class MoveAttention(nn.Module):
    """Причинное внимание.

    state — словарь {'k': ..., 'v': ...}; пустой словарь начинает партию,
    дальше в нём накапливаются ключи и значения.  Ответ пошагового вызова
    совпадает с ответом на всю партию сразу.
    """

    def __init__(self, dim: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, dim * 3, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor, state: Optional[Dict[str, torch.Tensor]] = None):
        B, L, D = x.shape
        q, k, v = self.qkv(x).view(B, L, 3, self.heads, D // self.heads).permute(2, 0, 3, 1, 4)
        past = state["k"].shape[2] if state else 0
        pos = torch.arange(L, device=x.device)
        q, k = rope(q, pos), rope(k, pos)
        if state is not None:
            if past:
                k = torch.cat([state["k"], k], dim=2)
                v = torch.cat([state["v"], v], dim=2)
            state["k"], state["v"] = k, v
        scores = q @ k.transpose(-1, -2) / (D // self.heads) ** 0.5
        allowed = torch.ones(L, past + L, dtype=torch.bool, device=x.device).tril(past)
        scores = scores.masked_fill(~allowed, float("-inf"))
        y = scores.softmax(-1) @ v
        return self.proj(y.transpose(1, 2).reshape(B, L, D))


class Гроссмейстер(nn.Module):
    def __init__(self, dim: int = 32, layers: int = 2):
        super().__init__()
        self.emb = nn.Embedding(ПОЛЕЙ * ПОЛЕЙ, dim)
        self.att = nn.ModuleList(MoveAttention(dim) for _ in range(layers))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))

    def forward(self, ходы, states=None):
        h = self.emb(ходы)
        for i, (a, n) in enumerate(zip(self.att, self.ln)):
            h = h + a(n(h), None if states is None else states[i])
        return h @ self.emb.weight.t()

    @torch.no_grad()
    def продолжить(self, дебют, n):
        states = [{} for _ in self.att]
        t, out = дебют, []
        for _ in range(n):
            t = self(t, states)[:, -1:].argmax(-1)
            out.append(t)
        return torch.cat(out, 1)
