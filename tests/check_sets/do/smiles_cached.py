"""Autoregressive SMILES generator: one rotary attention layer with a cache.

forward(tokens)        tokens (B, n): the next n tokens of the string, appended to
                       whatever was fed since reset().  First call: the whole
                       scaffold prompt; afterwards usually one token at a time.
                       Returns logits (B, n, vocab).
Tokens see themselves and everything before.  Rotary embedding (half-split
layout) uses the absolute place of the token in the string, so that feeding a
string in pieces and feeding it at once give the same logits.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def rotate(x, pos, base=10000.0):
    """x (B, H, n, d), pos (n,)"""
    d = x.shape[-1]
    inv = base ** (-torch.arange(0, d, 2, dtype=torch.float32) / d)
    ang = pos.float()[:, None] * inv                      # n, d/2
    cos, sin = ang.cos(), ang.sin()
    a, b = x[..., : d // 2], x[..., d // 2:]
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


class SmilesLayer(nn.Module):
    def __init__(self, vocab=40, dim=32, heads=4):
        super().__init__()
        self.heads = heads
        self.tok = nn.Embedding(vocab, dim)
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.lm = nn.Linear(dim, vocab)
        self.reset()

    def reset(self):
        self.kv, self.place = None, 0

    def forward(self, tokens):
        B, n = tokens.shape
        x = self.tok(tokens)
        q, k, v = (w(x).view(B, n, self.heads, -1).transpose(1, 2) for w in (self.wq, self.wk, self.wv))
        pos = self.place + torch.arange(n)
        self.place += 1
        q, k = rotate(q, pos), rotate(k, pos)
        if self.kv is not None:
            k = torch.cat([self.kv[0], k], dim=2)
            v = torch.cat([self.kv[1], v], dim=2)
        self.kv = (k.detach(), v.detach())
        total = k.shape[2]
        see = torch.ones(n, total, dtype=torch.bool).tril(diagonal=total - n)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=see)
        x = x + self.wo(y.transpose(1, 2).reshape(B, n, -1))
        return self.lm(x)
