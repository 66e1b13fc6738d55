"""Pointer network for the travelling salesman, homework 4 of "Neural Combinatorial Optimisation".

Bello et al. (2016): the decoder glimpses at the cities, then points at one.
"""
import torch
import torch.nn as nn


class Pointer(nn.Module):
    """u_j = v . tanh(W_ref e_j + W_q q), logits = C * tanh(u) before masking.

    query   (B, d)      ref (B, n, d)
    visited (B, n)      bool, True = city was visited and can't be chosen
    returns probabilities (B, n) and the glimpse (B, d)
    """

    def __init__(self, d, clip=10.0):
        super().__init__()
        self.W_q = nn.Linear(d, d)
        self.W_ref = nn.Linear(d, d, bias=False)
        self.v = nn.Parameter(torch.empty(d).uniform_(-d ** -0.5, d ** -0.5))
        self.clip = clip

    def forward(self, query, ref, visited):
        hidden = torch.tanh(self.W_q(query).unsqueeze(1) + self.W_ref(ref))
        u = hidden @ self.v
        if self.clip:
            u = self.clip * torch.tanh(u)
        u = u.masked_fill(visited, float("-inf"))
        p = torch.softmax(u, dim=1)
        return p, torch.bmm(p.unsqueeze(1), ref).squeeze(1)


class TSPSolver(nn.Module):
    def __init__(self, d=32):
        super().__init__()
        self.embed = nn.Linear(2, d)
        self.encoder = nn.LSTM(d, d, batch_first=True)
        self.decoder = nn.LSTMCell(d, d)
        self.first = nn.Parameter(torch.zeros(d))
        self.glimpse = Pointer(d, clip=0)
        self.point = Pointer(d)

    def forward(self, xy, greedy=False):
        B, n, _ = xy.shape
        emb = self.embed(xy)
        ref, (h, c) = self.encoder(emb)
        h, c = h[0], c[0]
        inp = self.first.expand(B, -1)
        visited = torch.zeros(B, n, dtype=torch.bool, device=xy.device)
        tour, logp = [], 0.0
        for _ in range(n):
            h, c = self.decoder(inp, (h, c))
            _, g = self.glimpse(h, ref, visited)
            p, _ = self.point(g, ref, visited)
            nxt = p.argmax(1) if greedy else torch.multinomial(p, 1).squeeze(1)
            logp = logp + p.gather(1, nxt[:, None]).squeeze(1).log()
            visited = visited.scatter(1, nxt[:, None], True)
            inp = emb[torch.arange(B), nxt]
            tour.append(nxt)
        return torch.stack(tour, 1), logp


def tour_length(xy, tour):
    path = xy.gather(1, tour[..., None].expand(-1, -1, 2))
    return (path - path.roll(-1, 1)).norm(dim=-1).sum(1)


if __name__ == "__main__":
    torch.manual_seed(0)
    cities = torch.rand(4, 8, 2)
    t, lp = TSPSolver()(cities)
    print(t, tour_length(cities, t), lp)
