"""Pointer network for the travelling salesman (Bello et al. 2016, "Neural combinatorial
optimization with RL"), greedy decoding.

cities: (batch, n, 2) coordinates in [0, 1].
Returns tour (batch, n) int64 - each city once - and log_p (batch,), the sum of the log
probabilities of the chosen cities.

Glimpse and pointer use the additive score  v . tanh(W_ref r_i + W_q q).  The pointer logits are
squashed by C * tanh(.) with C = 10.  A city which has been visited can neither be glimpsed
nor pointed at.
"""
import torch
import torch.nn as nn


class Scorer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.w_ref = nn.Linear(d, d)
        self.w_q = nn.Linear(d, d)
        self.v = nn.Parameter(torch.empty(d).uniform_(-d ** -0.5, d ** -0.5))

    def forward(self, q, ref):
        return torch.tanh(self.w_ref(ref) + self.w_q(q)[:, None]) @ self.v     # (batch, n)


class PointerTSP(nn.Module):
    def __init__(self, d=64, C=10.):
        super().__init__()
        self.embed = nn.Linear(2, d, bias=False)
        self.encoder = nn.LSTM(d, d, batch_first=True)
        self.decoder = nn.LSTMCell(d, d)
        self.start = nn.Parameter(torch.randn(d) * 0.1)
        self.glimpse, self.pointer = Scorer(d), Scorer(d)
        self.C = C

    def forward(self, cities):
        b, n, _ = cities.shape
        emb = self.embed(cities)
        ref, (h, c) = self.encoder(emb)
        h, c = h[0], c[0]
        inp = self.start.expand(b, -1)
        visited = torch.zeros(b, n, dtype=torch.bool, device=cities.device)
        log_p, tour = cities.new_zeros(b), []
        for _ in range(n):
            h, c = self.decoder(inp, (h, c))
            g = self.glimpse(h, ref).masked_fill(visited, float('-inf')).softmax(1)
            q = torch.einsum('bn,bnd->bd', g, ref)
            u = self.C * torch.tanh(self.pointer(q, ref))
            lp = torch.log_softmax(u.masked_fill(visited, float('-inf')), dim=1)
            best, pick = lp.max(dim=1)
            log_p = log_p + best
            tour.append(pick)
            visited = visited.scatter(1, pick[:, None], True)
            inp = emb[torch.arange(b), pick]
        return torch.stack(tour, 1), log_p
