"""Support-chat model: decoder self-attention with a preallocated cache.

The prompt is fed in chunks of any size, afterwards one token at a time; the
result must be the same as feeding everything at once. Causal.
"""
import torch
from torch import nn


class ChatCache:
    """Fixed-size key/value store, `used` positions are filled."""

    def __init__(self, batch: int, heads: int, max_len: int, head_dim: int):
        self.k = torch.zeros(batch, heads, max_len, head_dim)
        self.v = torch.zeros(batch, heads, max_len, head_dim)
        self.used = 0

    def write(self, k: torch.Tensor, v: torch.Tensor):
        end = self.used + k.size(2)
        if end > self.k.size(2):
            raise RuntimeError("chat is longer than the cache")
        self.k[:, :, self.used:end] = k
        self.v[:, :, self.used:end] = v
        self.used = end
        return self.k[:, :, :end], self.v[:, :, :end]


class ChatAttention(nn.Module):
    def __init__(self, dim: int = 32, heads: int = 4):
        super().__init__()
        self.heads = heads
        self.head_dim = dim // heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def new_cache(self, batch: int, max_len: int = 128) -> ChatCache:
        return ChatCache(batch, self.heads, max_len, self.head_dim)

    def forward(self, x: torch.Tensor, cache: ChatCache | None = None) -> torch.Tensor:
        """x: (batch, new_tokens, dim) -> (batch, new_tokens, dim)"""
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, self.head_dim).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k, v = cache.write(k, v)

        att = q @ k.transpose(-2, -1) / self.head_dim ** 0.5
        see = torch.ones(t, k.size(2), dtype=torch.bool, device=x.device).tril()
        att = att.masked_fill(~see, float("-inf")).softmax(-1)
        return self.out((att @ v).transpose(1, 2).flatten(2))


@torch.no_grad()
def feed(layer: ChatAttention, x: torch.Tensor, chunk: int = 4) -> torch.Tensor:
    cache = layer.new_cache(x.size(0), x.size(1))
    return torch.cat([layer(part, cache) for part in x.split(chunk, dim=1)], dim=1)
