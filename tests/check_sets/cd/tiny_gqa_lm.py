"""Attention of a 30M-parameter decoder with grouped key/value heads.

Everything is kept in [batch, seq, heads, head_dim]; the einsums name the axes.
Query heads come in groups of ``n_rep = n_heads // n_kv_heads`` neighbours, and
every group reads one key/value head (heads 0..n_rep-1 read kv head 0, and so
on, as in Llama checkpoints).  The cache holds the un-repeated heads.
"""
from dataclasses import dataclass
from typing import Optional, Tuple

import torch
import torch.nn as nn


@dataclass
class Args:
    dim: int = 32
    n_heads: int = 4
    n_kv_heads: int = 2
    max_seq: int = 64


KV = Tuple[torch.Tensor, torch.Tensor]


class GroupedAttention(nn.Module):
    def __init__(self, args: Args = Args()):
        super().__init__()
        self.n_heads = args.n_heads
        self.n_kv_heads = args.n_kv_heads
        self.n_rep = args.n_heads // args.n_kv_heads
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, args.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, args.n_kv_heads * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, args.n_kv_heads * self.head_dim, bias=False)
        self.wo = nn.Linear(args.n_heads * self.head_dim, args.dim, bias=False)

    def expand_kv(self, t: torch.Tensor) -> torch.Tensor:
        b, s, _, d = t.shape
        return t.repeat(1, self.n_rep, 1, 1).reshape(b, s, self.n_heads, d)

    def forward(self, x: torch.Tensor, past: Optional[KV] = None) -> Tuple[torch.Tensor, KV]:
        b, t, _ = x.shape
        q = self.wq(x).view(b, t, self.n_heads, self.head_dim)
        k = self.wk(x).view(b, t, self.n_kv_heads, self.head_dim)
        v = self.wv(x).view(b, t, self.n_kv_heads, self.head_dim)
        if past is not None:
            k = torch.cat([past[0], k], dim=1)
            v = torch.cat([past[1], v], dim=1)
        present = (k, v)
        s = k.shape[1]

        k, v = self.expand_kv(k), self.expand_kv(v)
        att = torch.einsum("bthd,bshd->bhts", q, k) * self.head_dim ** -0.5
        # last query lines up with the last key
        rows = torch.arange(s - t, s, device=x.device)[:, None]
        cols = torch.arange(s, device=x.device)[None, :]
        att = att.masked_fill(cols > rows, float("-inf"))
        att = att.float().softmax(dim=-1).type_as(x)
        y = torch.einsum("bhts,bshd->bthd", att, v)
        return self.wo(y.reshape(b, t, -1)), present


if __name__ == "__main__":
    attn = GroupedAttention()
    y, kv = attn(torch.randn(1, 6, 32))
    y2, kv = attn(torch.randn(1, 1, 32), kv)
    print(y.shape, y2.shape, kv[0].shape)
