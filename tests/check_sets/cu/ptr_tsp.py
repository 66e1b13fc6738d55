"""Pointer network decoder for small TSP (greedy or sampling), with one glimpse.

Pointer logits are C*tanh(v.tanh(Wq + Uk)), C = 10, as in Bello et al.
"""
import torch
import torch.nn as nn


class Point(nn.Module):
    def __init__(self, d, clip=None):
        super().__init__()
        self.q, self.k = nn.Linear(d, d), nn.Linear(d, d)
        self.v = nn.Parameter(torch.empty(d).uniform_(-d ** -0.5, d ** -0.5))
        self.clip = clip

    def forward(self, q, e, seen):
        u = torch.tanh(self.q(q)[:, None] + self.k(e)) @ self.v
        if self.clip:
            u = self.clip * torch.tanh(u)
        return u.masked_fill(seen, float("-inf"))


class PtrTSP(nn.Module):
    def __init__(self, d=24, C=10.0):
        super().__init__()
        self.embed = nn.Linear(2, d)
        self.enc = nn.LSTM(d, d, batch_first=True)
        self.cell = nn.LSTMCell(d, d)
        self.start = nn.Parameter(torch.randn(d) * 0.1)
        self.glimpse = Point(d)
        self.point = Point(d, C)

    def forward(self, xy, greedy=True):
        """xy [B, N, 2] -> tour [B, N] (a permutation), logp [B, N, N]: row t holds the
        log distribution of step t, visited towns at -inf."""
        B, N, _ = xy.shape
        e, (h, c) = self.enc(x := self.embed(xy))
        h, c = h[0], c[0]
        inp = self.start.expand(B, -1)
        seen = torch.zeros(B, N, dtype=torch.bool, device=xy.device)
        tour, logp = [], []
        for _ in range(N):
            h, c = self.cell(inp, (h, c))
            g = self.glimpse(h, e, seen).softmax(-1)
            q = (g[:, None] @ e).squeeze(1)
            lp = self.point(q, e, seen).log_softmax(-1)
            i = lp.argmax(-1) if greedy else torch.multinomial(lp.exp(), 1).squeeze(1)
            seen = seen.scatter(1, i[:, None], True)
            inp = x[torch.arange(B), i]
            tour.append(i)
            logp.append(lp)
        return torch.stack(tour, 1), torch.stack(logp, 1)
