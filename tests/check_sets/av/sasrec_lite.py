"""SASRec with one small module for each head. Item id 0 is padding (on the left)."""
import torch
from torch import nn
from torch.nn import functional as F


class Kopf(nn.Module):
    def __init__(self, dim, head_dim, drop):
        super().__init__()
        self.query = nn.Linear(dim, head_dim)
        self.key = nn.Linear(dim, head_dim)
        self.value = nn.Linear(dim, head_dim)
        self.drop = nn.Dropout(drop)
        self.temperature = head_dim ** 0.5

    def forward(self, x, blocked):
        sc = torch.bmm(self.query(x), self.key(x).permute(0, 2, 1)) / self.temperature
        sc = sc.masked_fill(blocked, torch.finfo(sc.dtype).min)
        return torch.bmm(self.drop(F.softmax(sc, dim=2)), self.value(x))


class HistoryAttention(nn.Module):
    """Every position looks at itself and at older items, never at newer ones and
    never at padding (positions that are padding themselves give garbage which the
    caller zeroes)."""

    def __init__(self, dim, heads, drop=0.0):
        super().__init__()
        self.koepfe = nn.ModuleList([Kopf(dim, dim // heads, drop) for _ in range(heads)])
        self.merge = nn.Linear(dim, dim)

    def forward(self, x, ids):
        n = x.shape[1]
        newer = torch.triu(torch.ones(n, n, device=x.device), diagonal=1).bool()
        blocked = newer.unsqueeze(0) | ids.eq(0).unsqueeze(1)
        return self.merge(torch.cat([k(x, blocked) for k in self.koepfe], dim=-1))


class SASRec(nn.Module):
    def __init__(self, items, dim=32, heads=2, layers=2, maxlen=50, drop=0.1):
        super().__init__()
        self.item = nn.Embedding(items + 1, dim, padding_idx=0)
        self.pos = nn.Embedding(maxlen, dim)
        self.att = nn.ModuleList(HistoryAttention(dim, heads, drop) for _ in range(layers))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.ff = nn.ModuleList(nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
                                for _ in range(layers))
        self.last = nn.LayerNorm(dim)
        self.drop = nn.Dropout(drop)

    def encode(self, ids):
        x = self.item(ids) * self.item.embedding_dim ** 0.5
        x = self.drop(x + self.pos(torch.arange(ids.shape[1], device=ids.device)))
        live = ids.ne(0).unsqueeze(-1)
        x = x * live
        for a, n, f in zip(self.att, self.ln, self.ff):
            x = x + a(n(x), ids)
            x = (x + f(x)) * live
        return self.last(x)

    def forward(self, ids, pos, neg):
        h = self.encode(ids)
        return (h * self.item(pos)).sum(-1), (h * self.item(neg)).sum(-1)

    @torch.no_grad()
    def predict(self, ids):
        return self.encode(ids)[:, -1] @ self.item.weight.T
