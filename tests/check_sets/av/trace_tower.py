"""Seismic trace encoder with grouped-query attention; everything is [B, L, heads, d]."""
from typing import Optional

import torch
from torch import Tensor, nn
import torch.nn.functional as F


def expand_kv(kv: Tensor, n_rep: int) -> Tensor:
    """[B, L, n_kv, d] -> one k/v head for each query head."""
    if n_rep == 1:
        return kv
    return kv.repeat(1, n_rep, 1, 1)


class TraceGQA(nn.Module):
    """Grouped-query attention: query head h reads kv head h // (n_heads / n_kv)."""

    def __init__(self, width: int, n_heads: int, n_kv: int) -> None:
        super().__init__()
        self.n_heads, self.n_kv, self.d = n_heads, n_kv, width // n_heads
        self.q = nn.Linear(width, n_heads * self.d, bias=False)
        self.kv = nn.Linear(width, 2 * n_kv * self.d, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x: Tensor, mute: Optional[Tensor] = None) -> Tensor:
        """mute: bool [B, L], True for muted samples that nobody may look at."""
        B, L, W = x.shape
        n_rep = self.n_heads // self.n_kv
        q = self.q(x).view(B, L, self.n_heads, self.d)
        k, v = self.kv(x).view(B, L, 2, self.n_kv, self.d).unbind(dim=2)
        k, v = expand_kv(k, n_rep), expand_kv(v, n_rep)
        q = q.transpose(1, 2)
        k = k.reshape(B, -1, self.n_heads, self.d).transpose(1, 2)
        v = v.reshape(B, -1, self.n_heads, self.d).transpose(1, 2)
        keep = None if mute is None else ~mute[:, None, None, :]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keep)
        return self.o(y.transpose(1, 2).reshape(B, L, W))


class TraceBlock(nn.Module):
    def __init__(self, width: int, n_heads: int = 4, n_kv: int = 2) -> None:
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.att = TraceGQA(width, n_heads, n_kv)
        self.ff = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x, mute=None):
        x = x + self.att(self.n1(x), mute)
        return x + self.ff(self.n2(x))


class PickNet(nn.Module):
    """P and S arrivals from three component records."""

    def __init__(self, width=32, depth=2):
        super().__init__()
        self.stem = nn.Conv1d(3, width, 5, padding=2)
        self.blocks = nn.ModuleList(TraceBlock(width) for _ in range(depth))
        self.pick = nn.Linear(width, 3)

    def forward(self, rec, mute=None):
        x = self.stem(rec).transpose(1, 2)
        for b in self.blocks:
            x = b(x, mute)
        return self.pick(x).log_softmax(-1)
