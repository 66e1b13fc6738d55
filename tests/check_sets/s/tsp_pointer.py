import torch
import torch.nn as nn
import torch.nn.functional as F


class Glimpse(nn.Module):
    """Additive pointer of Bello et al. 2017, returns log-probabilities over the cities."""

    def __init__(self, dim):
        super().__init__()
        self.W_ref = nn.Linear(dim, dim, bias=False)
        self.W_q = nn.Linear(dim, dim, bias=False)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-0.5, 0.5))

    def forward(self, ref, query, visited):
        u = self.W_ref(ref) + self.W_q(query).unsqueeze(1)
        u = u @ self.v
        u = u.masked_fill(visited, float("-inf"))
        return F.log_softmax(u, dim=-1)


class TourNet(nn.Module):
    """cities [B, n, 2] -> tour [B, n], log-likelihood [B]"""

    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.enc = nn.LSTM(dim, dim, batch_first=True)
        self.dec = nn.LSTMCell(dim, dim)
        self.ptr = Glimpse(dim)
        self.first = nn.Parameter(torch.zeros(dim))

    def forward(self, cities, greedy=True):
        B, n, _ = cities.shape
        x = self.embed(cities)
        ref, (h, c) = self.enc(x)
        h, c = h[0], c[0]
        inp = self.first.expand(B, -1)
        visited = torch.zeros(B, n, dtype=torch.bool, device=cities.device)
        tour, ll = [], 0.0
        for _ in range(n):
            h, c = self.dec(inp, (h, c))
            logp = self.ptr(ref, h, visited)
            j = logp.argmax(-1) if greedy else torch.multinomial(logp.exp(), 1).squeeze(1)
            ll = ll + logp.gather(1, j[:, None]).squeeze(1)
            visited = visited.scatter(1, j[:, None], True)
            inp = x[torch.arange(B), j]
            tour.append(j)
        return torch.stack(tour, 1), ll
