"""affineur.py -- cheese cellar log model

One record per wheel and day (weight, humidity, rind colour, ammonia, turning).
A daily cron job feeds the records that have arrived since the last run, which
may be one or several days, into a causal decoder with a cache. Feeding
everything at once and feeding it in portions must give the same states.
"""

import torch
import torch.nn as nn
from torch.nn.functional import scaled_dot_product_attention as sdpa

CHEESES = {"Comté": 365, "Beaufort": 150, "Reblochon": 28, "Salers": 90}


def loss_of_weight(kg):
    return (kg[..., :-1] - kg[..., 1:]) / kg[..., :-1]


class CellarCache(dict):
    """layer number -> (k, v); plain dict so that it can go through torch.save"""

    def extend(self, layer, k, v):
        if layer in self:
            old_k, old_v = self[layer]
            k, v = torch.cat((old_k, k), -2), torch.cat((old_v, v), -2)
        self[layer] = (k, v)
        return k, v

    def days(self):
        return self[0][0].size(-2) if self else 0


class CellarAttention(nn.Module):
    """causal; x (wheels, days, dim). With a cache, x are the days after the cached ones."""

    def __init__(self, dim, heads, layer=0, p=0.0):
        super().__init__()
        self.heads, self.layer, self.p = heads, layer, p
        self.kv = nn.Linear(dim, 2 * dim)
        self.q = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def forward(self, x, cache=None):
        w, t, dim = x.shape
        split = lambda y: y.view(w, t, self.heads, -1).transpose(1, 2)
        q = split(self.q(x))
        k, v = map(split, self.kv(x).chunk(2, -1))
        if cache is not None:
            k, v = cache.extend(self.layer, k, v)
        y = sdpa(q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=t > 1)
        return self.o(y.transpose(1, 2).flatten(2))


class CellarModel(nn.Module):
    def __init__(self, features=5, dim=40, heads=4, layers=2, longest=500):
        super().__init__()
        self.inp = nn.Linear(features, dim)
        self.day = nn.Embedding(longest, dim)
        self.att = nn.ModuleList(CellarAttention(dim, heads, i, 0.1) for i in range(layers))
        self.mlp = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
            for _ in range(layers))
        self.ln = nn.ModuleList(nn.LayerNorm(dim) for _ in range(layers))
        self.ripe = nn.Linear(dim, 1)

    def forward(self, records, cache=None):
        first = cache.days() if cache is not None else 0
        day = torch.arange(first, first + records.size(1), device=records.device)
        h = self.inp(records) + self.day(day)
        for att, mlp, ln in zip(self.att, self.mlp, self.ln):
            h = h + att(ln(h), cache)
            h = h + mlp(h)
        return torch.sigmoid(self.ripe(h)).squeeze(-1)


@torch.no_grad()
def nightly(model, new_records, path=None):
    """reads the cache from disk, adds the new days, writes it back"""
    model.eval()
    cache = CellarCache()
    if path is not None:
        try:
            cache.update(torch.load(path))
        except FileNotFoundError:
            pass
    ripe = model(new_records, cache)[:, -1]
    if path is not None:
        torch.save(dict(cache), path)
    return ripe


if __name__ == "__main__":
    print(nightly(CellarModel(), torch.randn(3, CHEESES["Reblochon"], 5)))
