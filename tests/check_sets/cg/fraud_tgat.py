"""Temporal neighbourhood attention for card-fraud scoring (TGAT-like).

For each transaction we sample up to K earlier transactions that share a card or a
terminal.  The transaction asks, the neighbours answer; time differences enter as
cos(w * dt + b).  A transaction without neighbours gets a zero context vector.
"""
import math

import torch
from torch import nn


class TimeEncoding(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.w = nn.Parameter(torch.logspace(0, -6, size))
        self.b = nn.Parameter(torch.zeros(size))

    def forward(self, dt):
        return torch.cos(dt.unsqueeze(-1) * self.w + self.b)


class NeighbourContext(nn.Module):
    def __init__(self, feat, time_size=8, heads=2, head_size=10):
        super().__init__()
        self.heads, self.head_size = heads, head_size
        inner = heads * head_size
        self.clock = TimeEncoding(time_size)
        self.ask = nn.Linear(feat + time_size, inner)
        self.tell = nn.Linear(feat + time_size, 2 * inner)
        self.merge = nn.Linear(inner, feat)

    def forward(self, x, nbr, dt, present):
        """x [B, F]; nbr [B, K, F]; dt [B, K] seconds; present [B, K] bool."""
        bsz, k, _ = nbr.shape
        now = self.clock(torch.zeros(bsz, device=x.device, dtype=x.dtype))
        q = self.ask(torch.cat([x, now], -1)).view(bsz, self.heads, self.head_size)
        kv = self.tell(torch.cat([nbr, self.clock(dt)], -1))
        key, val = kv.view(bsz, k, 2, self.heads, self.head_size).unbind(2)
        logit = torch.einsum("bhd,bkhd->bhk", q, key) / math.sqrt(self.head_size)
        logit = logit.masked_fill(~present[:, None, :], torch.finfo(logit.dtype).min)
        w = logit.softmax(-1)
        ctx = torch.einsum("bhk,bkhd->bhd", w, val).flatten(1)
        some = present.any(-1, keepdim=True)
        return torch.where(some, self.merge(ctx), torch.zeros_like(x))


class FraudScorer(nn.Module):
    def __init__(self, feat=12, **kw):
        super().__init__()
        self.ctx = NeighbourContext(feat, **kw)
        self.head = nn.Sequential(nn.Linear(2 * feat, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x, nbr, dt, present):
        c = self.ctx(x, nbr, dt, present)
        return self.head(torch.cat([x, c], -1)).squeeze(-1)
