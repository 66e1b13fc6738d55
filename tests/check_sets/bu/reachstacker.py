'''
reachstacker: predicts the next move of a reach stacker in a container yard.
House rules
  * layout is always (batch, time, head, width)
  * query head h reads kv head h // (heads / kv_heads)
  * rotary pairs are (0,1), (2,3), ...   (GPT-J layout)
  * moves may only look back
'''
from __future__ import annotations
import torch
import torch.nn as nn
import torch.nn.functional as F


def rotary_pairs(x: torch.Tensor, first: int, theta: float = 10_000.) -> torch.Tensor:
    B, T, H, D = x.shape
    freq = theta ** (-torch.arange(0, D, 2, dtype=torch.float64) / D)
    ang = torch.outer(torch.arange(first, first + T, dtype=torch.float64), freq).to(x.dtype)
    cos, sin = ang.cos()[:, None], ang.sin()[:, None]
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2)


class MoveLog:
    """What the stacker did so far: rotated keys and values."""
    k: torch.Tensor | None = None
    v: torch.Tensor | None = None

    def __len__(self) -> int:
        return 0 if self.k is None else self.k.shape[1]

    def extend(self, k, v):
        self.k = k if self.k is None else torch.cat((self.k, k), dim=1)
        self.v = v if self.v is None else torch.cat((self.v, v), dim=1)
        return self.k, self.v


class YardAttention(nn.Module):
    def __init__(self, dim=24, heads=6, kv_heads=2):
        super().__init__()
        assert heads % kv_heads == 0
        self.heads, self.kv_heads, self.width = heads, kv_heads, dim // heads
        self.wq = nn.Linear(dim, heads * self.width, bias=False)
        self.wk = nn.Linear(dim, kv_heads * self.width, bias=False)
        self.wv = nn.Linear(dim, kv_heads * self.width, bias=False)
        self.wg = nn.Linear(dim, heads)
        self.wo = nn.Linear(heads * self.width, dim, bias=False)

    def forward(self, x, log: MoveLog | None = None):
        B, T, _ = x.shape
        first = 0 if log is None else len(log)
        q = rotary_pairs(self.wq(x).view(B, T, self.heads, -1), first)
        k = rotary_pairs(self.wk(x).view(B, T, self.kv_heads, -1), first)
        v = self.wv(x).view(B, T, self.kv_heads, -1)
        if log is not None:
            k, v = log.extend(k, v)
        per = self.heads // self.kv_heads
        k = k.repeat_interleave(per, dim=2)
        v = v.repeat_interleave(per, dim=2)
        q, k, v = (t.transpose(1, 2) for t in (q, k, v))
        S = k.shape[2]
        may = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=may).transpose(1, 2)
        y = y * torch.sigmoid(self.wg(x)).unsqueeze(-1)
        return self.wo(y.reshape(B, T, -1))


class StackerPolicy(nn.Module):
    def __init__(self, moves=9, dim=24):
        super().__init__()
        self.e = nn.Embedding(moves, dim)
        self.att = YardAttention(dim)
        self.h = nn.Linear(dim, moves)

    def forward(self, moves, log=None):
        z = self.e(moves)
        return self.h(z + self.att(z, log))
