"""Fraud scoring on packed rows: several cards' transactions share one row.

CardStream(dim, heads).forward(x, seg) -> (B, T, D)
    x    (B, T, D) float  transaction vectors
    seg  (B, T) int       card number inside the row; 0 = padding, equal numbers = same card
A transaction attends to itself and to the earlier transactions (lower column) of the
same card, and to nothing else.  Scores are scaled with 1/sqrt(D / heads).
Pre-norm with residual, x + attention(LayerNorm(x)); rows of padding come out as zeros.
"""
import math
import torch
from torch import nn


def segment_bias(seg, dtype):
    """(B, 1, T, T) additive bias: 0 where attending is allowed, -inf elsewhere."""
    T = seg.size(1)
    same = seg.unsqueeze(2) == seg.unsqueeze(1)
    past = torch.ones(T, T, dtype=torch.bool, device=seg.device).tril()
    ok = same & past                  # padding sees padding, so no row is ever empty
    bias = torch.zeros(ok.shape, dtype=dtype, device=seg.device)
    return bias.masked_fill(~ok, -math.inf).unsqueeze(1)


class CardStream(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.h, self.d = heads, dim // heads
        self.norm = nn.LayerNorm(dim)
        self.proj = nn.Linear(dim, 3 * dim, bias=False)
        self.back = nn.Linear(dim, dim, bias=False)

    def forward(self, x, seg):
        B, T, D = x.shape
        q, k, v = (t.reshape(B, T, self.h, self.d).transpose(1, 2)
                   for t in self.proj(self.norm(x)).split(D, dim=-1))
        logits = q @ k.mT / math.sqrt(self.d) + segment_bias(seg, x.dtype)
        y = logits.softmax(-1) @ v
        y = self.back(y.transpose(1, 2).reshape(B, T, D))
        return (x + y) * seg.ne(0).unsqueeze(-1)
