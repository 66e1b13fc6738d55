"""Constant-memory generation: attention over `n_sink` first + `window` last tokens.

No positions are used here (the model this was cut from is a NoPE model), so the
cache is simply cut after each token.  Every cached token stays a key/value pair
until it falls out of the window; the sinks never do.
"""
import torch
import torch.nn.functional as F
from torch import nn


class BoundedCache:
    def __init__(self, n_sink, window):
        self.n_sink = n_sink
        self.window = window
        self.k = None
        self.v = None
        self.seen = 0

    def add(self, k, v):
        # k, v: B, H, 1, d
        self.seen += 1
        self.k = k if self.k is None else torch.cat((self.k, k), dim=2)
        self.v = v if self.v is None else torch.cat((self.v, v), dim=2)
        if self.seen > self.n_sink + self.window:
            self.k = torch.cat((self.k[:, :, : self.n_sink], self.k[:, :, -self.window :]), dim=2)
            self.v = self.v[:, :, -self.window :]
        return self.k, self.v


class BoundedAttention(nn.Module):
    def __init__(self, dim=32, heads=4, n_sink=1, window=3):
        super().__init__()
        self.heads = heads
        self.n_sink, self.window = n_sink, window
        self.in_proj = nn.Linear(dim, 3 * dim, bias=False)
        self.out_proj = nn.Linear(dim, dim, bias=False)

    def new_cache(self):
        return BoundedCache(self.n_sink, self.window)

    def step(self, x, cache):
        """x [B, dim] -> [B, dim]"""
        b, dim = x.shape
        q, k, v = self.in_proj(x).view(b, 3, self.heads, 1, dim // self.heads).unbind(1)
        k, v = cache.add(k, v)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out_proj(y.reshape(b, dim))

    def forward(self, x):
        """x [B, T, dim], fed token by token."""
        cache = self.new_cache()
        return torch.stack([self.step(t, cache) for t in x.unbind(1)], dim=1)


if __name__ == "__main__":
    torch.manual_seed(0)
    net = BoundedAttention()
    print(net(torch.randn(2, 12, 32)).shape)
