import torch
import torch.nn as nn


class KVCache:
    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[2]

    def update(self, k, v):
        if self.k is None:
            self.k, self.v = k, v
        else:
            self.k = torch.cat([self.k, k], dim=2)
            self.v = torch.cat([self.v, v], dim=2)
        return self.k, self.v


def rope(x, positions, theta=10000.0):
    # x: (B, H, L, D)
    D = x.shape[-1]
    freq = theta ** (-torch.arange(0, D, 2, device=x.device).to(x.dtype) / D)
    ang = positions.to(x.dtype)[:, None] * freq
    cos, sin = ang.cos(), ang.sin()
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class CachedAttention(nn.Module):
    def __init__(self, dim: int, heads: int):
        super().__init__()
        self.heads = heads
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, dim, bias=False)
        self.v_proj = nn.Linear(dim, dim, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x: torch.Tensor, cache: KVCache = None) -> torch.Tensor:
        # x holds the new tokens only; earlier ones are in the cache
        B, L, D = x.shape
        q, k, v = (
            p(x).view(B, L, self.heads, -1).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj)
        )
        pos = torch.arange(L, device=x.device)
        q, k = rope(q, pos), rope(k, pos)
        if cache is not None:
            k, v = cache.update(k, v)
        S = k.shape[2]
        scores = q @ k.transpose(-1, -2) * q.shape[-1] ** -0.5
        blocked = torch.ones(L, S, dtype=torch.bool, device=x.device).triu(S - L + 1)
        w = scores.masked_fill(blocked, float("-inf")).softmax(-1)
        return self.o_proj((w @ v).transpose(1, 2).reshape(B, L, D))
