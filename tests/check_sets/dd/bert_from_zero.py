import torch
import torch.nn as nn
import torch.nn.functional as F


class SentenceEncoder(nn.Module):
    """Token ids (B, L) -> contextual vectors (B, L, dim). Id 0 is padding and is never attended to."""

    def __init__(self, vocab=60, dim=32, heads=4, max_len=32):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(max_len, dim)
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(dim, dim) for _ in range(3))
        self.dense = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim)

    def split(self, t):
        return t.view(t.size(0), t.size(1), self.heads, -1).permute(0, 2, 1, 3)

    def forward(self, ids):
        B, L = ids.shape
        x = self.tok(ids) + self.pos(torch.arange(L, device=ids.device))
        q, k, v = self.split(self.query(x)), self.split(self.key(x)), self.split(self.value(x))
        pad = ids.eq(0)[:, None, :, None]
        e = torch.einsum("bhqd,bhkd->bhqk", q, k) / k.size(-1) ** 0.5
        e = e.masked_fill(pad, torch.finfo(e.dtype).min)
        ctx = torch.einsum("bhqk,bhkd->bhqd", F.softmax(e, dim=-1), v)
        ctx = ctx.permute(0, 2, 1, 3).reshape(B, L, -1)
        return self.norm(x + self.dense(ctx))
