"""SASRec style next-item model for shop sessions (sessions are LEFT padded with item 0)."""
import numpy as np
import torch
import torch.nn as nn

PAD = 0


def collate(sessions, maxlen):
    out = np.zeros((len(sessions), maxlen), dtype=np.int64)
    for r, s in enumerate(sessions):
        s = s[-maxlen:]
        if len(s):
            out[r, -len(s):] = s
    return torch.from_numpy(out)


class SessionAttention(nn.Module):
    """x [B, L, D], real [B, L] bool (True = a click).  Causal; padding is never attended to.

    Query positions which see no click at all (the padding on the left) give a zero
    attention vector.
    """

    def __init__(self, dim, heads, p=0.2):
        super().__init__()
        assert dim % heads == 0
        self.h, self.d = heads, dim // heads
        self.Wq, self.Wk, self.Wv = (nn.Linear(dim, dim) for _ in range(3))
        self.out = nn.Linear(dim, dim, bias=False)
        self.drop = nn.Dropout(p)

    def heads(self, t):
        return t.unflatten(-1, (self.h, self.d)).transpose(1, 2)

    def forward(self, x, real):
        L = x.size(1)
        q, k, v = self.heads(self.Wq(x)), self.heads(self.Wk(x)), self.heads(self.Wv(x))
        s = q @ k.mT / self.d ** 0.5
        see = torch.ones(L, L, dtype=torch.bool, device=x.device).tril() & real[:, None, None, :]
        s = s.masked_fill(see.logical_not(), torch.finfo(s.dtype).min)
        a = s.softmax(-1) * see.to(s.dtype)
        y = self.drop(a) @ v
        return self.out(y.transpose(1, 2).flatten(2))


class SASRec(nn.Module):
    def __init__(self, n_items, dim=32, heads=2, depth=2, maxlen=20):
        super().__init__()
        self.items = nn.Embedding(n_items + 1, dim, padding_idx=PAD)
        self.pos = nn.Embedding(maxlen, dim)
        self.att = nn.ModuleList(SessionAttention(dim, heads) for _ in range(depth))
        self.n1 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.n2 = nn.ModuleList(nn.LayerNorm(dim) for _ in range(depth))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim)) for _ in range(depth)
        )

    def forward(self, seq):
        real = seq != PAD
        x = self.items(seq) * self.items.embedding_dim ** 0.5 + self.pos.weight[: seq.size(1)]
        x = x * real[..., None]
        for a, n1, n2, f in zip(self.att, self.n1, self.n2, self.ff):
            x = x + a(n1(x), real)
            x = (x + f(n2(x))) * real[..., None]
        return x

    def score(self, seq, candidates):
        return (self.forward(seq)[:, -1:] * self.items(candidates)).sum(-1)
