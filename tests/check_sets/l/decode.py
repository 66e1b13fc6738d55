import torch
from torch import nn


def rotate(x, positions):
    """Interleaved rotary embedding of x (B, H, T, D) at positions (T,)."""
    d = x.shape[-1]
    inv = 10000.0 ** (-torch.arange(0, d, 2, dtype=x.dtype) / d)
    ang = positions.to(x.dtype)[:, None] * inv
    c, s = ang.cos(), ang.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * c - odd * s, even * s + odd * c], dim=-1).flatten(-2)


class DecodeAttention(nn.Module):
    """Causal self-attention with a key/value cache: forward(x, cache) returns (y, cache).

    x (B, T, dim) holds the tokens that follow those in the cache; cache is None or the (k, v) returned before, each (B, H, S, D).
    """

    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        B, T, C = x.shape
        q, k, v = self.wqkv(x).view(B, T, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        past = 0 if cache is None else cache[0].shape[2]
        pos = torch.arange(T)
        q, k = rotate(q, pos), rotate(k, pos)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        ok = torch.ones(T, past + T, dtype=torch.bool).tril(past)
        s = (q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5).masked_fill(~ok, float("-inf"))
        y = s.softmax(-1) @ v
        return self.wo(y.transpose(1, 2).reshape(B, T, C)), (k, v)
