"""Attention with a learned sink logit per head (the gpt-oss recipe), eager version.

Every head owns one extra scalar logit that takes part in the softmax but has no
value vector.  A head can thus attend to "nothing": the weights over the real keys
sum to exp-mass / (exp-mass + exp(sink)) < 1, which is intended.

Odd layers use a sliding window: query i reads keys i-window+1 .. i (window keys,
itself included).  Even layers are plain causal.
"""
from typing import Optional

import torch
from torch import nn


def expand_kv(x: torch.Tensor, n: int) -> torch.Tensor:
    """(B, Hkv, L, d) -> (B, Hkv * n, L, d); copies of one head are neighbours."""
    b, h, l, d = x.shape
    return x[:, :, None].expand(b, h, n, l, d).reshape(b, h * n, l, d)


class SinkAttention(nn.Module):
    def __init__(self, dim: int, n_heads: int, n_kv: int, head_dim: int,
                 layer_idx: int, window: int = 128):
        super().__init__()
        self.n_heads, self.n_kv, self.head_dim = n_heads, n_kv, head_dim
        self.window: Optional[int] = window if layer_idx % 2 == 1 else None
        self.qkv = nn.Linear(dim, (n_heads + 2 * n_kv) * head_dim)
        self.out = nn.Linear(n_heads * head_dim, dim)
        self.sinks = nn.Parameter(torch.randn(n_heads))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x (B, T, dim) -> (B, T, dim)."""
        b, t, _ = x.shape
        hd = self.head_dim
        q, k, v = self.qkv(x).split(
            [self.n_heads * hd, self.n_kv * hd, self.n_kv * hd], dim=-1)
        q = q.view(b, t, self.n_heads, hd).transpose(1, 2)
        k = k.view(b, t, self.n_kv, hd).transpose(1, 2)
        v = v.view(b, t, self.n_kv, hd).transpose(1, 2)
        k = expand_kv(k, self.n_heads // self.n_kv)
        v = expand_kv(v, self.n_heads // self.n_kv)

        qk = torch.matmul(q, k.mT) * hd ** -0.5
        drop = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        if self.window is not None:
            # also hide whatever is `window` or more tokens back
            drop = drop | torch.ones_like(drop).tril(-self.window)
        qk = qk.masked_fill(drop, float("-inf"))

        sink = self.sinks.view(1, -1, 1, 1).expand(b, -1, t, 1)
        w = torch.cat((qk, sink), dim=-1).float().softmax(dim=-1)
        w = w[..., :-1].to(v.dtype)          # the sink has no value
        y = torch.matmul(w, v).transpose(1, 2).reshape(b, t, -1)
        return self.out(y)
