"""Neural combinatorial optimisation for TSP: greedy rollout of a pointer decoder (Bello et al. style).

At every step: one glimpse over the cities that are still open, then a pointer over the same
cities.  Pointer logits are clipped with  C * tanh(.)  and closed cities get probability 0.
"""
import math
import torch
from torch import nn


class Rollout(nn.Module):
    def __init__(self, dim=32, clip=10.0):
        super().__init__()
        self.C = clip
        self.city = nn.Linear(2, dim)
        self.first = nn.Parameter(torch.randn(dim))
        self.rnn = nn.GRUCell(dim, dim)
        self.gk = nn.Linear(dim, dim, bias=False)
        self.gv = nn.Linear(dim, dim, bias=False)
        self.gq = nn.Linear(dim, dim, bias=False)
        self.pk = nn.Linear(dim, dim, bias=False)
        self.pq = nn.Linear(dim, dim, bias=False)

    def forward(self, xy):
        """xy: (B, N, 2) coordinates.

        Returns tour (B, N) long, each row a permutation, and logp (B, N, N): log-probabilities
        over the cities at every step (-inf for cities that had been visited before).
        """
        B, N, _ = xy.shape
        e = self.city(xy)
        gk, gv, pk = self.gk(e), self.gv(e), self.pk(e)
        root = math.sqrt(e.size(-1))
        h = e.mean(1)
        inp = self.first.expand(B, -1)
        closed = torch.zeros(B, N, dtype=torch.bool, device=xy.device)
        tour, logps = [], []
        for _ in range(N):
            h = self.rnn(inp, h)
            u = torch.einsum("bd,bnd->bn", self.gq(h), gk) / root
            u = u.masked_fill(closed, -math.inf)
            glimpse = torch.einsum("bn,bnd->bd", u.softmax(-1), gv)
            z = torch.einsum("bd,bnd->bn", self.pq(h + glimpse), pk) / root
            z = self.C * torch.tanh(z)
            z = z.masked_fill(closed, -math.inf)
            lp = z.log_softmax(-1)
            nxt = lp.argmax(-1)
            closed = closed.scatter(1, nxt[:, None], True)
            inp = e[torch.arange(B), nxt]
            tour.append(nxt)
            logps.append(lp)
        return torch.stack(tour, 1), torch.stack(logps, 1)
