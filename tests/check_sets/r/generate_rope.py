import torch
from torch import nn


def rope(x, start=0, base=10000.0):
    """x (B, T, H, d): pairs (x_i, x_{i + d/2}) are turned by position * base^(-2i/d), positions from ``start``."""
    half = x.shape[-1] // 2
    freq = base ** (-torch.arange(half, device=x.device) / half)
    angle = (start + torch.arange(x.shape[1], device=x.device))[:, None, None] * freq
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * angle.cos() - b * angle.sin(), b * angle.cos() + a * angle.sin()], dim=-1)


class CachedAttention(nn.Module):
    """Causal attention with rotary positions.  x (B, T, dim) continues what the cache holds.

    forward(x, cache) returns (y, cache); feeding a text in pieces gives what feeding it whole gives.
    """

    def __init__(self, dim, n_heads=2):
        super().__init__()
        self.n_heads = n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))

    def forward(self, x, cache=None):
        B, T, _ = x.shape
        q, k, v = (w(x).view(B, T, self.n_heads, -1) for w in (self.wq, self.wk, self.wv))
        q, k = rope(q), rope(k)
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=1), torch.cat([cache[1], v], dim=1)
        S = k.shape[1]
        s = torch.einsum("bthd,bshd->bhts", q, k) / q.shape[-1] ** 0.5
        keep = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        w = s.masked_fill(~keep, float("-inf")).softmax(-1)
        return self.wo(torch.einsum("bhts,bshd->bthd", w, v).flatten(2)), (k, v)

    def generate(self, x):
        """The same as forward(x)[0], one token at a time."""
        cache, out = None, []
        for t in range(x.shape[1]):
            y, cache = self(x[:, t : t + 1], cache)
            out.append(y)
        return torch.cat(out, dim=1)
