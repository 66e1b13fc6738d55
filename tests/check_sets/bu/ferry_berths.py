# -*- coding: utf-8 -*-
"""Which cars go onto which berth of the ferry?  Slot attention (Locatello 2020).

The berths COMPETE for the cars: the softmax runs over the berths, afterwards
each berth takes the weighted mean of the cars (weights renormalised over the
cars).  Both sums are meant exactly so.
"""
import torch
from torch import nn


class BerthSlots(nn.Module):

    def __init__(self, n_berths=3, dim=12, rounds=3, eps=1e-8):
        super(BerthSlots, self).__init__()
        self.n_berths = n_berths
        self.rounds = rounds
        self.eps = eps
        self.scale = dim ** -0.5

        self.mu = nn.Parameter(torch.randn(1, n_berths, dim))

        self.norm_cars = nn.LayerNorm(dim)
        self.norm_berth = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)

        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)

        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def one_round(self, berths, k, v):
        b, s, d = berths.shape
        q = self.q(self.norm_berth(berths))
        dots = torch.einsum('bsd,bnd->bsn', q, k) * self.scale
        share = dots.softmax(dim=1) + self.eps
        share = share / share.sum(dim=2, keepdim=True)
        load = torch.einsum('bsn,bnd->bsd', share, v)
        berths = self.gru(load.reshape(-1, d), berths.reshape(-1, d)).view(b, s, d)
        return berths + self.mlp(self.norm_mlp(berths)), share

    def forward(self, cars):
        """cars [B, N, dim] -> berths [B, S, dim], share [B, S, N] (rows sum to 1)"""
        cars = self.norm_cars(cars)
        k, v = self.k(cars), self.v(cars)
        berths = self.mu.expand(cars.shape[0], -1, -1)
        share = None
        for _ in range(self.rounds):
            berths, share = self.one_round(berths, k, v)
        return berths, share


def trim_moment(share, weight, lever):
    """Heeling moment of the plan: share [B,S,N], weight [B,N] in t, lever [S] in m."""
    tonnes = torch.einsum('bsn,bn->bs', share, weight)
    return (tonnes * lever).sum(-1)


def build(cfg: dict):
    return BerthSlots(cfg.get("berths", 3), cfg.get("dim", 12), cfg.get("rounds", 3))


if __name__ == '__main__':
    net = build({})
    b, s = net(torch.randn(2, 8, 12))
    print(b.shape, trim_moment(s, torch.rand(2, 8), torch.tensor([-4., 0., 4.])))
