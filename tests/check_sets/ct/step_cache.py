"""Incremental decoding attention for the on-device keyboard model."""
from typing import Optional, Tuple

import torch
from torch import nn, Tensor

Cache = Tuple[Tensor, Tensor]


def spin(x: Tensor, start: int, base: float = 10000.0) -> Tensor:
    """Rotary embedding, neighbouring pairs (0,1), (2,3), ... x: (B, H, L, D)."""
    L, D = x.shape[-2:]
    pos = torch.arange(start, start + L, dtype=torch.float32, device=x.device)
    freq = base ** (-torch.arange(0, D, 2, device=x.device).float() / D)
    z = torch.view_as_complex(x.float().reshape(*x.shape[:-1], D // 2, 2).contiguous())
    turn = torch.polar(torch.ones(L, D // 2, device=x.device), torch.outer(pos, freq))
    return torch.view_as_real(z * turn).flatten(-2).type_as(x)


class CachedSelfAttention(nn.Module):
    """
    Causal self-attention over (B, L, dim).

    forward(x, cache) takes the L newest tokens and returns (y, new_cache).
    The cache holds rotated keys and plain values, each (B, H, P, D), for the P
    tokens seen before. Feeding a text in one go or in any chunks gives the
    same outputs.
    """

    def __init__(self, dim: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x: Tensor, cache: Optional[Cache] = None):
        B, L, E = x.shape
        q, k, v = (
            t.view(B, L, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        past = 0 if cache is None else cache[0].size(2)
        q, k = spin(q, past), spin(k, past)
        if cache is not None:
            k = torch.cat((cache[0], k), 2)
            v = torch.cat((cache[1], v), 2)
        s = q @ k.mT * q.size(-1) ** -0.5
        # row r is absolute token past + r
        hide = torch.ones(L, past + L, dtype=torch.bool, device=x.device).triu(past + 1)
        p = torch.softmax(s.masked_fill(hide, float("-inf")), -1)
        y = (p @ v).transpose(1, 2).reshape(B, L, E)
        return self.proj(y), (k, v)
