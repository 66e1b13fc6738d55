import torch
from torch import nn


class BeamLayer(nn.Module):
    """Self-attention layer of a beam-search engine with its own cache.

    forward(x): x (beams, 1, dim), the newest token of every beam; appends to the cache.
    reorder(parents): parents (beams,) says which old beam every new beam continues.
    clear(): forget everything.
    """

    def __init__(self, dim=16, heads=2):
        super().__init__()
        self.heads = heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)
        self.past = {}

    def clear(self):
        self.past = {}

    def reorder(self, parents):
        if self.past:
            self.past["k"] = self.past["k"].index_select(0, parents)

    def forward(self, x):
        split = lambda t: t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        q, k, v = split(self.wq(x)), split(self.wk(x)), split(self.wv(x))
        if self.past:
            k = torch.cat([self.past["k"], k], dim=2)
            v = torch.cat([self.past["v"], v], dim=2)
        self.past["k"], self.past["v"] = k, v
        y = nn.functional.scaled_dot_product_attention(q, k, v)
        return self.wo(y.transpose(1, 2).flatten(2))
