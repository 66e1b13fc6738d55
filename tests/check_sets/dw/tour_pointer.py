"""Decoder of the neural TSP solver (Bello et al. / Kool et al.): glimpse, then pointer.

next_city(h, cities, visited)
    h        (B, D)        decoder query
    cities   (B, N, D)     city embeddings
    visited  (B, N) bool   True = already in the tour; at least one city is still free
returns log-probabilities (B, N) of the next city, -inf for visited ones.

Glimpse: multi-head dot-product read over the FREE cities, logits / sqrt(D / heads).
Pointer: u_j = clip * tanh(g . K c_j / sqrt(D)), and only afterwards the visited cities are
taken out, so that clipping can not bring them back.  Softmax over cities at `temp`.
"""
import math
import torch
import torch.nn as nn


class TourPointer(nn.Module):
    def __init__(self, D, heads=4, clip=10.0, temp=1.0):
        super().__init__()
        self.heads, self.clip, self.temp = heads, clip, temp
        self.read = nn.Linear(D, 3 * D, bias=False)      # glimpse key | glimpse value | pointer key
        self.ask = nn.Linear(D, D, bias=False)
        self.back = nn.Linear(D, D, bias=False)

    def next_city(self, h, cities, visited):
        B, N, D = cities.shape
        d = D // self.heads
        gk, gv, pk = self.read(cities).chunk(3, dim=-1)
        gk = gk.view(B, N, self.heads, d)
        gv = gv.view(B, N, self.heads, d)
        q = self.ask(h).view(B, self.heads, d)

        s = torch.einsum("bhd,bnhd->bhn", q, gk) / math.sqrt(d)
        s = s.masked_fill(visited[:, None], float("-inf"))
        glimpse = torch.einsum("bhn,bnhd->bhd", s.softmax(-1), gv).flatten(1)
        g = self.back(glimpse)

        u = self.clip * torch.tanh(torch.einsum("bd,bnd->bn", g, pk) / math.sqrt(D))
        u = u.masked_fill(visited, float("-inf"))
        return torch.log_softmax(u / self.temp, dim=-1)

    @torch.no_grad()
    def greedy(self, h, cities):
        B, N, _ = cities.shape
        visited = torch.zeros(B, N, dtype=torch.bool)
        tour = []
        for _ in range(N):
            pick = self.next_city(h, cities, visited).argmax(-1)
            visited = visited.scatter(1, pick[:, None], True)
            tour.append(pick)
            h = h + cities[torch.arange(B), pick]
        return torch.stack(tour, 1)
