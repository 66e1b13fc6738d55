"""Tour construction with a pointer decoder (Vinyals et al. 2015, Bello et al. 2016).

Re-implementation for a reading group. At every step the LSTM state first takes
one *glimpse* over the cities that are still open (additive attention) and the
refined query then points at the next city:

    u_j = C * tanh(v^T tanh(W_q g + W_k e_j)),  j open
    p   = softmax(u)                            (closed cities have p = 0)

C = 10 keeps the pointer logits in [-C, C] for exploration, as in Bello et al.;
the glimpse is not clipped. Decoding is greedy.
"""
import torch
from torch import nn


def additive_logits(q, keys, wq, v):
    return torch.einsum("bnd,d->bn", torch.tanh(wq(q)[:, None] + keys), v)


class TourDecoder(nn.Module):
    def __init__(self, dim: int = 32, clip: float = 10.0):
        super().__init__()
        self.clip = clip
        self.encode = nn.Sequential(nn.Linear(2, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.cell = nn.LSTMCell(dim, dim)
        self.first = nn.Parameter(torch.randn(dim) * dim ** -0.5)
        self.glimpse_q = nn.Linear(dim, dim)
        self.glimpse_k = nn.Linear(dim, dim, bias=False)
        self.point_q = nn.Linear(dim, dim)
        self.point_k = nn.Linear(dim, dim, bias=False)
        self.glimpse_v = nn.Parameter(torch.randn(dim) * dim ** -0.5)
        self.point_v = nn.Parameter(torch.randn(dim) * dim ** -0.5)

    def step(self, inp, state, emb, gk, pk, closed):
        h, c = self.cell(inp, state)
        g = additive_logits(h, gk, self.glimpse_q, self.glimpse_v)
        g = torch.softmax(g.masked_fill(closed, -torch.inf), dim=-1)
        h_ref = torch.bmm(g[:, None], emb).squeeze(1)
        u = additive_logits(h_ref, pk, self.point_q, self.point_v)
        u = self.clip * torch.tanh(u)
        u = u.masked_fill(closed, -torch.inf)
        return torch.log_softmax(u, dim=-1), (h, c)

    def forward(self, cities):
        """cities [B, N, 2] -> tour [B, N] (a permutation), log p of the tour [B], p [B, N, N]."""
        B, N, _ = cities.shape
        emb = self.encode(cities)
        gk, pk = self.glimpse_k(emb), self.point_k(emb)
        mean = emb.mean(1)
        state = (mean, torch.zeros_like(mean))
        inp = self.first.expand(B, -1)
        closed = torch.zeros(B, N, dtype=torch.bool, device=cities.device)
        tour, logp, probs = [], 0.0, []
        for _ in range(N):
            lp, state = self.step(inp, state, emb, gk, pk, closed)
            nxt = lp.argmax(-1)
            logp = logp + lp.gather(1, nxt[:, None]).squeeze(1)
            closed = closed.scatter(1, nxt[:, None], True)
            inp = emb[torch.arange(B), nxt]
            tour.append(nxt)
            probs.append(lp.exp())
        return torch.stack(tour, 1), logp, torch.stack(probs, 1)


def tour_length(cities, tour):
    p = cities.gather(1, tour[..., None].expand(-1, -1, 2))
    return (p - p.roll(-1, dims=1)).norm(dim=-1).sum(1)
