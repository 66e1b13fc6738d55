"""ALiBi instead of learned positions, so that the model can be run on longer contexts.

From the paper (Press et al., "Train short, test long"): for n heads (n a power of two) the
slopes are a geometric sequence that starts at 2^(-8/n) and uses that same value as its
ratio; for 8 heads 1/2, 1/4, ..., 1/256.  The score of query i and key j <= i gets
-m * (i - j) added after the 1/sqrt(d) scaling.
"""
import math

import torch
from torch import nn


def get_slopes(n):
    assert n & (n - 1) == 0, "power of two only"
    start = 2.0 ** (-8.0 / n)
    return torch.tensor([start ** i for i in range(n)])


class AlibiDecoderAttention(nn.Module):
    """x: (B, T, D) -> (B, T, D).  Causal; any T.

    key_ok: optional (B, T) bool, True = real token. Padding is on the right, so that a query
    that is a real token always has itself.
    """

    def __init__(self, D, n_heads, dropout=0.0):
        super().__init__()
        self.h = n_heads
        self.Wqkv = nn.Linear(D, 3 * D, bias=False)
        self.Wo = nn.Linear(D, D, bias=False)
        self.drop = nn.Dropout(dropout)
        self.register_buffer("m", get_slopes(n_heads).view(1, n_heads, 1, 1))

    def bias(self, T, device):
        pos = torch.arange(T, device=device)
        return -self.m * (pos[:, None] - pos[None, :])

    def forward(self, x, key_ok=None):
        B, T, D = x.shape
        q, k, v = self.Wqkv(x).view(B, T, 3, self.h, D // self.h).permute(2, 0, 3, 1, 4)
        logits = torch.einsum("bhid,bhjd->bhij", q, k) / math.sqrt(D // self.h)
        logits = logits + self.bias(T, x.device)
        hide = torch.ones(T, T, dtype=torch.bool, device=x.device).triu(1)[None, None]
        if key_ok is not None:
            hide = hide | ~key_ok[:, None, None, :]
        p = logits.masked_fill(hide, float("-inf")).softmax(-1)
        y = torch.einsum("bhij,bhjd->bihd", self.drop(p), v)
        return self.Wo(y.reshape(B, T, D))
