"""Live captions. Text comes in pieces of several tokens, earlier pieces stay in the cache."""
import torch
from torch import nn


class PieceAttention(nn.Module):
    """Causal self-attention with a key/value cache.

    x     (B, t, dim)              tokens of the new piece
    cache None or (k, v), each     (B, H, s, d), from the pieces before
    """

    def __init__(self, dim=32, heads=4):
        super().__init__()
        self.H, self.d = heads, dim // heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x, cache=None):
        B, t, C = x.shape
        q, k, v = self.qkv(x).reshape(B, t, 3, self.H, self.d).permute(2, 0, 3, 1, 4)
        if cache is not None:
            k = torch.cat([cache[0], k], dim=2)
            v = torch.cat([cache[1], v], dim=2)
        total = k.shape[2]
        keep = torch.ones(t, total, dtype=torch.bool, device=x.device).tril()
        s = q @ k.transpose(-2, -1) * self.d ** -0.5
        s = s.masked_fill(~keep, float("-inf"))
        y = s.softmax(dim=-1) @ v
        return self.out(y.transpose(1, 2).reshape(B, t, C)), (k, v)


class Captioner(nn.Module):
    """ids (B, T) -> logits (B, T, vocab), computed piece by piece as in production."""

    def __init__(self, vocab=60, dim=32, heads=4, piece=3):
        super().__init__()
        self.piece = piece
        self.emb = nn.Embedding(vocab, dim)
        self.att = PieceAttention(dim, heads)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        cache, outs = None, []
        for part in ids.split(self.piece, dim=1):
            x = self.emb(part)
            y, cache = self.att(x, cache)
            outs.append(self.head(x + y))
        return torch.cat(outs, dim=1)
