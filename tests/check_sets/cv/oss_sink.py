"""Grouped-query attention with learned sinks and an optional sliding window."""
import torch
import torch.nn as nn


class SinkGQA(nn.Module):
    """x (B, T, D) -> (B, T, D), causal.

    `kv` key/value heads are shared by consecutive query heads (heads 0..g-1 use the first, and so
    on, with g = heads // kv). Every head has a sink logit: it takes part in the softmax and is then
    thrown away, therefore rows sum to less than one.
    window: number of keys that a token sees, itself included; None = all.
    """

    def __init__(self, D=48, heads=6, kv=2, d=8, window=None):
        super().__init__()
        self.heads, self.kv, self.d, self.window = heads, kv, d, window
        self.wq = nn.Linear(D, heads * d)
        self.wkv = nn.Linear(D, 2 * kv * d)
        self.wo = nn.Linear(heads * d, D)
        self.sinks = nn.Parameter(torch.randn(heads))

    def forward(self, x):
        B, T, _ = x.shape
        q = self.wq(x).view(B, T, self.heads, self.d).transpose(1, 2)
        k, v = self.wkv(x).view(B, T, 2, self.kv, self.d).permute(2, 0, 3, 1, 4)
        rep = self.heads // self.kv
        k = k.repeat(1, rep, 1, 1)
        v = v.repeat(1, rep, 1, 1)

        s = q @ k.mT * self.d ** -0.5
        i = torch.arange(T, device=x.device)
        gap = i[:, None] - i[None, :]
        hidden = gap < 0
        if self.window is not None:
            hidden = hidden | (gap >= self.window)
        s = s.masked_fill(hidden, float("-inf"))
        sink = self.sinks.view(1, -1, 1, 1).expand(B, -1, T, 1)
        p = torch.cat([s, sink], -1).softmax(-1)[..., :-1]
        return self.wo((p @ v).transpose(1, 2).reshape(B, T, -1))
