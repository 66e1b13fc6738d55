"""Minimal re-implementation of StreamingLLM's rolling cache.

The first `n_sink` tokens are never thrown out, and of the rest only the last
`window` are kept (the newest token included).  As in the paper, rotary
positions are those *inside the cache*, not those of the text: keys are stored
un-rotated and rotated anew at every step, and the query has the position of
the newest entry.  Rotary halves are split (x1 = first half, x2 = second half).
"""
import torch
import torch.nn as nn


def rotary(x, pos, base=10000.0):
    # x [B, H, T, d], pos [T]
    half = x.size(-1) // 2
    inv = base ** (-torch.arange(half, dtype=x.dtype, device=x.device) / half)
    ang = pos.to(x.dtype)[:, None] * inv
    c, s = ang.cos(), ang.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], dim=-1)


class StreamingAttention(nn.Module):
    def __init__(self, d_model=32, n_head=4, n_sink=2, window=4):
        super().__init__()
        self.n_head = n_head
        self.n_sink = n_sink
        self.window = window
        self.wq = nn.Linear(d_model, d_model, bias=False)
        self.wk = nn.Linear(d_model, d_model, bias=False)
        self.wv = nn.Linear(d_model, d_model, bias=False)
        self.wo = nn.Linear(d_model, d_model, bias=False)
        self.reset()

    def reset(self):
        self.k = self.v = None

    def _heads(self, t):
        B, T, D = t.shape
        return t.reshape(B, T, self.n_head, D // self.n_head).transpose(1, 2)

    def _push(self, k, v):
        if self.k is not None:
            k = torch.cat([self.k, k], dim=2)
            v = torch.cat([self.v, v], dim=2)
        if k.size(2) > self.n_sink + self.window:
            k = torch.cat([k[:, :, : self.n_sink], k[:, :, -self.window :]], dim=2)
            v = torch.cat([v[:, :, : self.n_sink], v[:, :, -self.window :]], dim=2)
        self.k, self.v = k, v

    def step(self, x):
        """x [B, d_model]: one new token -> [B, d_model]"""
        x = x.unsqueeze(1)
        q = self._heads(self.wq(x))
        self._push(self._heads(self.wk(x)), self._heads(self.wv(x)))

        n = self.k.size(2)
        pos = torch.arange(n, device=x.device)
        q = rotary(q, pos[-1:])
        k = rotary(self.k, pos)
        att = (q @ k.transpose(2, 3)) * q.size(-1) ** -0.5
        y = att.softmax(-1) @ self.v
        return self.wo(y.transpose(1, 2).flatten(2)).squeeze(1)

    def forward(self, x):
        """x [B, T, d_model], token by token on an empty cache."""
        self.reset()
        return torch.stack([self.step(x[:, t]) for t in range(x.size(1))], dim=1)
