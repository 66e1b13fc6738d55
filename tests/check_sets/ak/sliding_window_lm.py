"""
Local attention for long documents.

    window = 4        a token attends to 4 positions: itself and the 3 before it

The rolling cache keeps exactly `window` positions, so that a decoder that has run for hours needs
no more memory than one that has just begun.
"""
import torch
from torch import nn


class Rope(nn.Module):
    def __init__(self, dim, base=10_000):
        super().__init__()
        self.register_buffer("theta", base ** (-torch.arange(0, dim, 2).float() / dim), persistent=False)

    def forward(self, x, pos):
        ang = pos.to(self.theta)[:, None] * self.theta
        c, s = ang.cos(), ang.sin()
        even, odd = x[..., 0::2], x[..., 1::2]
        return torch.stack((even * c - odd * s, even * s + odd * c), dim=-1).flatten(-2)


class RollingCache:
    def __init__(self, window):
        self.window = window
        self.k = self.v = None
        self.seen = 0

    def extend(self, k, v):
        if self.k is not None:
            k = torch.cat((self.k, k), dim=2)
            v = torch.cat((self.v, v), dim=2)
        return k, v

    def keep(self, k, v, n_new):
        self.k, self.v = k[:, :, -self.window:], v[:, :, -self.window:]
        self.seen += n_new


class LocalSelfAttention(nn.Module):
    def __init__(self, d_model: int, n_heads: int, window: int, dropout: float = 0.0):
        super().__init__()
        assert d_model % n_heads == 0
        self.n_heads = n_heads
        self.window = window
        self.scale = (d_model // n_heads) ** -0.5
        self.in_proj = nn.Linear(d_model, 3 * d_model)
        self.out_proj = nn.Linear(d_model, d_model)
        self.rope = Rope(d_model // n_heads)
        self.dropout = nn.Dropout(dropout)

    def local_mask(self, q_pos, k_pos):
        """True where key k may be read by query q: causal, and not older than the window."""
        age = q_pos[:, None] - k_pos[None, :]
        return (age >= 0) & (age <= self.window)

    def forward(self, x, cache: RollingCache | None = None):
        b, n, c = x.shape
        qkv = self.in_proj(x).view(b, n, 3, self.n_heads, c // self.n_heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]

        first = 0 if cache is None else cache.seen
        q_pos = torch.arange(first, first + n, device=x.device)
        q, k = self.rope(q, q_pos), self.rope(k, q_pos)
        if cache is not None:
            k, v = cache.extend(k, v)
        k_pos = torch.arange(first + n - k.shape[2], first + n, device=x.device)

        att = torch.einsum("bhqd,bhkd->bhqk", q, k) * self.scale
        att = att.masked_fill(~self.local_mask(q_pos, k_pos), float("-inf"))
        att = self.dropout(att.softmax(-1))
        y = torch.einsum("bhqk,bhkd->bqhd", att, v).reshape(b, n, c)
        if cache is not None:
            cache.keep(k, v, n)
        return self.out_proj(y)


class LocalBlock(nn.Module):
    def __init__(self, d_model, n_heads, window):
        super().__init__()
        self.attn = LocalSelfAttention(d_model, n_heads, window)
        self.ff = nn.Sequential(nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model))
        self.n1, self.n2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def forward(self, x, cache=None):
        x = x + self.attn(self.n1(x), cache)
        return x + self.ff(self.n2(x))


class LongDocLM(nn.Module):
    def __init__(self, vocab=256, d_model=64, n_heads=4, window=16, layers=4):
        super().__init__()
        self.window = window
        self.emb = nn.Embedding(vocab, d_model)
        self.blocks = nn.ModuleList(LocalBlock(d_model, n_heads, window) for _ in range(layers))
        self.norm = nn.LayerNorm(d_model)
        self.head = nn.Linear(d_model, vocab, bias=False)

    def new_caches(self):
        return [RollingCache(self.window) for _ in self.blocks]

    def forward(self, ids, caches=None):
        x = self.emb(ids)
        for i, blk in enumerate(self.blocks):
            x = blk(x, None if caches is None else caches[i])
        return self.head(self.norm(x))


if __name__ == "__main__":
    lm = LongDocLM().eval()
    caches = lm.new_caches()
    print(lm(torch.randint(0, 256, (1, 40)), caches).shape, lm(torch.tensor([[5]]), caches).shape)
