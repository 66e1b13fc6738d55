import torch
import torch.nn as nn
import torch.nn.functional as F


def build_rope(max_len, dim, base=10000):
    theta = base ** (-torch.arange(0, dim, 2) / dim)
    angles = torch.arange(max_len)[:, None] * theta[None, :]
    return torch.cos(angles), torch.sin(angles)


def rope(x, cos, sin):
    # x: B, H, T, D, neighbouring pairs
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, even * sin + odd * cos], dim=-1).flatten(-2)


class KVCache:
    def __init__(self):
        self.k = self.v = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[2]

    def append(self, k, v):
        self.k = k if self.k is None else torch.cat([self.k, k], dim=2)
        self.v = v if self.v is None else torch.cat([self.v, v], dim=2)
        return self.k, self.v


class CachedAttention(nn.Module):
    def __init__(self, dim=32, n_heads=4, max_len=128):
        super().__init__()
        self.n_heads = n_heads
        self.head_dim = dim // n_heads
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(dim, dim, bias=False) for _ in range(4))
        cos, sin = build_rope(max_len, self.head_dim)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def forward(self, x, cache=None):
        B, T, C = x.shape
        q, k, v = (w(x).view(B, T, self.n_heads, self.head_dim).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        past = len(cache) if cache is not None else 0
        cos, sin = self.cos[:T], self.sin[:T]
        q, k = rope(q, cos, sin), rope(k, cos, sin)
        if cache is not None:
            k, v = cache.append(k, v)
        allowed = torch.ones(T, past + T, dtype=torch.bool, device=x.device).tril(past)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
        return self.wo(y.transpose(1, 2).reshape(B, T, C))


class Decoder(nn.Module):
    def __init__(self, vocab=60, dim=32, depth=2):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.attn = nn.ModuleList(CachedAttention(dim) for _ in range(depth))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(dim, 64), nn.SiLU(), nn.Linear(64, dim)) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * depth + 1))

    def forward(self, ids, caches=None):
        h = self.tok(ids)
        for i, (a, m) in enumerate(zip(self.attn, self.mlp)):
            h = h + a(self.norms[2 * i](h), None if caches is None else caches[i])
            h = h + m(self.norms[2 * i + 1](h))
        return self.norms[-1](h) @ self.tok.weight.T

    @torch.no_grad()
    def generate(self, ids, n):
        caches = [KVCache() for _ in self.attn]
        new = ids
        for _ in range(n):
            new = self(new, caches)[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, new], 1)
        return ids


if __name__ == "__main__":
    torch.manual_seed(0)
    print(Decoder().generate(torch.tensor([[5, 9, 2, 7]]), 10))
