"""Chunked-prefill toy server: prompts go through in pieces, every session keeps its keys and values."""
import time

import torch
import torch.nn as nn


class Session:
    def __init__(self, layers):
        self.kv = [None] * layers
        self.seen = 0
        self.born = time.monotonic()


def rotary(x, offset=0, base=10000.0):
    """x [H, n, d] whose first row is at position `offset`. Neighbouring channels are paired."""
    n, d = x.shape[-2:]
    inv = base ** (-torch.arange(0, d, 2).float() / d)
    a = torch.arange(offset, offset + n).float()[:, None] * inv
    c, s = a.cos(), a.sin()
    e, o = x[..., 0::2], x[..., 1::2]
    return torch.stack([e * c - o * s, e * s + o * c], -1).flatten(-2)


class ServedAttention(nn.Module):
    """Causal. `x` [n, dim] are the n newest tokens of a session; feeding a prompt in
    chunks must give the same as feeding it at once."""

    def __init__(self, dim, heads, index):
        super().__init__()
        self.heads, self.hd, self.index = heads, dim // heads, index
        self.wqkv = nn.Linear(dim, 3 * dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, session):
        n, dim = x.shape
        q, k, v = self.wqkv(x).view(n, 3, self.heads, self.hd).permute(1, 2, 0, 3)
        q, k = rotary(q), rotary(k)
        old = session.kv[self.index]
        if old is not None:
            k = torch.cat([old[0], k], dim=1)
            v = torch.cat([old[1], v], dim=1)
        session.kv[self.index] = (k, v)
        m = k.shape[1]
        see = torch.ones(n, m, dtype=torch.bool).tril()
        y = nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], attn_mask=see)
        return self.wo(y[0].transpose(0, 1).reshape(n, dim))


class ServedModel(nn.Module):
    def __init__(self, vocab=256, dim=64, heads=4, layers=2):
        super().__init__()
        self.emb = nn.Embedding(vocab, dim)
        self.att = nn.ModuleList(ServedAttention(dim, heads, i) for i in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(dim, 2 * dim), nn.SiLU(), nn.Linear(2 * dim, dim)) for _ in range(layers))
        self.n = nn.ModuleList(nn.LayerNorm(dim) for _ in range(2 * layers + 1))

    def forward(self, tokens, session):
        x = self.emb(tokens)
        for i, (a, f) in enumerate(zip(self.att, self.ff)):
            x = x + a(self.n[2 * i](x), session)
            x = x + f(self.n[2 * i + 1](x))
        session.seen += tokens.shape[0]
        return self.n[-1](x) @ self.emb.weight.T


class Server:
    def __init__(self, model, chunk=8, ttl=600.0):
        self.model, self.chunk, self.ttl = model.eval(), chunk, ttl
        self.sessions = {}

    def expire(self):
        now = time.monotonic()
        for k in [k for k, s in self.sessions.items() if now - s.born > self.ttl]:
            del self.sessions[k]

    @torch.no_grad()
    def prompt(self, sid, tokens):
        s = self.sessions.setdefault(sid, Session(len(self.model.att)))
        for piece in tokens.split(self.chunk):
            logits = self.model(piece, s)
        return logits[-1]
