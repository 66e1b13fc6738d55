"""Cached decoder layer with beam search bookkeeping (from a machine translation course).

Rows of the batch are hypotheses.  After every step of the search the caller picks the surviving
hypotheses and calls `reorder(parent)`; from then on row r continues the history of the old
row parent[r].  Attention over the past is causal by construction (one new token a call).
"""
import math
import torch
import torch.nn as nn


class BeamLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.dh = heads, d // heads
        self.q = nn.Linear(d, d)
        self.k = nn.Linear(d, d)
        self.v = nn.Linear(d, d)
        self.o = nn.Linear(d, d)
        self.reset()

    def reset(self):
        self.keys = None
        self.vals = None

    def reorder(self, parent):
        """parent (R,) long: row r of the new beam descends from row parent[r] of the old one"""
        if self.keys is None:
            return
        self.keys = self.keys.index_select(0, parent)

    def forward(self, x):
        """x (R, d), the newest token of every hypothesis -> (R, d)"""
        R = x.size(0)
        q = self.q(x).view(R, self.heads, 1, self.dh)
        k = self.k(x).view(R, self.heads, 1, self.dh)
        v = self.v(x).view(R, self.heads, 1, self.dh)
        self.keys = k if self.keys is None else torch.cat([self.keys, k], 2)
        self.vals = v if self.vals is None else torch.cat([self.vals, v], 2)
        s = (q * self.keys).sum(-1) / math.sqrt(self.dh)          # (R, heads, t)
        a = s.softmax(-1)
        y = (a.unsqueeze(-1) * self.vals).sum(2)
        return x + self.o(y.reshape(R, -1))
