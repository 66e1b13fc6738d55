"""Pointer decoder for neural combinatorial optimisation (travelling salesman).

At each step the decoder state first takes one "glimpse" of the cities not yet
visited, then points to the next.  The pointing logits are clipped to
[-C, C] with C*tanh(.) to keep the policy exploring; visited cities are ruled
out after the clipping.  Scores are additive, v.tanh(Wq + Wk).
"""
import torch
from torch import nn


class AdditiveScore(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-dim ** -0.5, dim ** -0.5))

    def forward(self, query, cities):
        keys = self.wk(cities)
        return keys, (torch.tanh(self.wq(query).unsqueeze(1) + keys) * self.v).sum(-1)


class PointerDecoder(nn.Module):
    def __init__(self, dim=16, clip=10.0):
        super().__init__()
        self.cell = nn.LSTMCell(dim, dim)
        self.start = nn.Parameter(torch.randn(dim) * 0.1)
        self.glimpse = AdditiveScore(dim)
        self.pointer = AdditiveScore(dim)
        self.clip = clip

    def step(self, inp, state, cities, visited):
        h, c = self.cell(inp, state)
        keys, g = self.glimpse(h, cities)
        g = g.masked_fill(visited, float("-inf")).softmax(dim=1)
        query = torch.einsum("bn,bnd->bd", g, keys)
        _, logits = self.pointer(query, cities)
        logits = self.clip * torch.tanh(logits)
        logits = logits.masked_fill(visited, float("-inf"))
        return torch.log_softmax(logits, dim=1), (h, c)

    def forward(self, cities, state, greedy=True):
        """cities: [B, N, D] encoded.  Returns tours [B, N] and their log-probability."""
        B, N, _ = cities.shape
        visited = torch.zeros(B, N, dtype=torch.bool, device=cities.device)
        inp = self.start.expand(B, -1)
        tour, total = [], cities.new_zeros(B)
        for _ in range(N):
            logp, state = self.step(inp, state, cities, visited)
            if greedy:
                pick = logp.argmax(dim=1)
            else:
                pick = torch.multinomial(logp.exp(), 1).squeeze(1)
            total = total + logp.gather(1, pick[:, None]).squeeze(1)
            visited = visited.scatter(1, pick[:, None], True)
            inp = cities[torch.arange(B, device=cities.device), pick]
            tour.append(pick)
        return torch.stack(tour, 1), total
