"""Neural combinatorial optimisation notebook: a pointer decoder with one glimpse."""
import torch
import torch.nn as nn


class Zeiger(nn.Module):
    def __init__(self, h, clip=None):
        super().__init__()
        self.q, self.r = nn.Linear(h, h), nn.Linear(h, h, bias=False)
        self.v = nn.Parameter(torch.randn(h) / h ** 0.5)
        self.clip = clip

    def forward(self, s, cities, seen):
        u = torch.tanh(self.q(s).unsqueeze(1) + self.r(cities)) @ self.v
        if self.clip is not None:
            u = self.clip * torch.tanh(u)
        return u.masked_fill(seen, float("-inf"))


class TourDecoder(nn.Module):
    def __init__(self, h=32, clip=10.0):
        super().__init__()
        self.inp = nn.Linear(2, h)
        self.enc = nn.LSTM(h, h, batch_first=True)
        self.cell = nn.LSTMCell(h, h)
        self.start = nn.Parameter(torch.randn(h) * 0.1)
        self.glimpse = Zeiger(h)
        self.point = Zeiger(h, clip)

    def forward(self, xy):
        """xy (B, N, 2) -> greedy tour (B, N) and log-probabilities of every step (B, N, N)"""
        B, N, _ = xy.shape
        x = self.inp(xy)
        mem, (h, c) = self.enc(x)
        h, c = h[0], c[0]
        seen = torch.zeros(B, N, dtype=torch.bool, device=xy.device)
        cur = self.start.expand(B, -1)
        tour, logs = [], []
        for _ in range(N):
            h, c = self.cell(cur, (h, c))
            g = self.glimpse(h, mem, seen).softmax(-1)
            g = (g.unsqueeze(-1) * mem).sum(1)
            logp = self.point(g, mem, seen).log_softmax(-1)
            pick = logp.argmax(-1)
            seen = seen.scatter(1, pick[:, None], True)
            cur = x[torch.arange(B, device=xy.device), pick]
            tour.append(pick)
            logs.append(logp)
        return torch.stack(tour, 1), torch.stack(logs, 1)
