"""Encoder layer of the passage reranker: packed inputs, symmetric ALiBi.

Several (query, passage) pairs are packed into one row of length N.  ``doc``
[B, N] holds the number of the pair a token belongs to, -1 for padding; tokens
see their own pair only (padding sees padding).  Being bidirectional, the bias
is -slope_h * |i - j|.  Slopes follow the ALiBi reference for any number of
heads: powers of 2^(-8/n) for a power of two, otherwise those of the power of two
below plus every other one of twice that.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


def alibi_slopes(n: int) -> list[float]:
    def geometric(m):
        start = 2.0 ** (-8.0 / m)
        return [start ** (i + 1) for i in range(m)]

    if math.log2(n).is_integer():
        return geometric(n)
    below = 2 ** math.floor(math.log2(n))
    return geometric(below) + geometric(2 * below)[0::2][: n - below]


class PackedEncoderLayer(nn.Module):
    def __init__(self, dim: int = 36, heads: int = 6, dropout: float = 0.0):
        super().__init__()
        self.heads = heads
        self.dropout = dropout
        self.norm = nn.LayerNorm(dim)
        self.wqkv = nn.Linear(dim, 3 * dim)
        self.wo = nn.Linear(dim, dim)
        self.ff_norm = nn.LayerNorm(dim)
        self.ff = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
        self.register_buffer("slopes", torch.tensor(alibi_slopes(heads)), persistent=False)

    def bias(self, doc: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
        n = doc.shape[1]
        i = torch.arange(n, device=doc.device)
        dist = (i[:, None] - i[None, :]).abs().to(dtype)
        alibi = -self.slopes.to(dtype)[:, None, None] * dist
        other = doc[:, None, :, None] != doc[:, None, None, :]
        return alibi.masked_fill(other, float("-inf"))

    def forward(self, x: torch.Tensor, doc: torch.Tensor) -> torch.Tensor:
        b, n, c = x.shape
        qkv = self.wqkv(self.norm(x)).view(b, n, 3, self.heads, c // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=self.bias(doc, q.dtype),
            dropout_p=self.dropout if self.training else 0.0,
        )
        x = x + self.wo(y.transpose(1, 2).reshape(b, n, c))
        return x + self.ff(self.ff_norm(x))


def pack(lengths: list[int], n: int) -> torch.Tensor:
    """[3, 2], 7 -> [0, 0, 0, 1, 1, -1, -1]"""
    ids = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    return F.pad(ids, (0, n - len(ids)), value=-1)
