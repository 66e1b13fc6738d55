import torch
from torch import nn


def rope(x, base=10000):
    *_, T, D = x.shape
    half = D // 2
    inv = base ** (-torch.arange(half, device=x.device, dtype=x.dtype) / half)
    ang = torch.arange(T, device=x.device, dtype=x.dtype)[:, None] * inv
    c, s = ang.cos(), ang.sin()
    a, b = x[..., :half], x[..., half:]
    return torch.cat([a * c - b * s, b * c + a * s], -1)


class RotaryAttention(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.to_qkv = nn.Linear(width, 3 * width, bias=False)
        self.to_out = nn.Linear(width, width, bias=False)

    def forward(self, x, cache=None):
        B, T, W = x.shape
        q, k, v = [t.view(B, T, self.heads, -1).transpose(1, 2) for t in self.to_qkv(x).chunk(3, -1)]
        q, k = rope(q), rope(k)
        if cache is not None:
            k = torch.cat([cache["k"], k], 2)
            v = torch.cat([cache["v"], v], 2)
        S = k.size(2)
        ok = torch.ones(T, S, dtype=torch.bool, device=x.device).tril(S - T)
        w = (q @ k.mT / q.size(-1) ** 0.5).masked_fill(~ok, -torch.inf).softmax(-1)
        y = (w @ v).transpose(1, 2).reshape(B, T, W)
        return self.to_out(y), {"k": k, "v": v}


class Decoder(nn.Module):
    def __init__(self, vocab=40, width=24, heads=3, depth=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, width)
        self.attn = nn.ModuleList(RotaryAttention(width, heads) for _ in range(depth))
        self.norm = nn.ModuleList(nn.LayerNorm(width) for _ in range(depth))
        self.head = nn.Linear(width, vocab)

    def forward(self, ids, caches=None):
        caches = caches or [None] * len(self.attn)
        x, new = self.emb(ids), []
        for a, n, c in zip(self.attn, self.norm, caches):
            y, c = a(n(x), c)
            x = x + y
            new.append(c)
        return self.head(x), new

    @torch.no_grad()
    def generate(self, ids, steps):
        logits, caches = self(ids)
        for _ in range(steps):
            nxt = logits[:, -1].argmax(-1, keepdim=True)
            ids = torch.cat([ids, nxt], 1)
            logits, caches = self(nxt, caches)
        return ids
