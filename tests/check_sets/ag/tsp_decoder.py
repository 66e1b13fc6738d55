# Pointer network for the Euclidean TSP (Bello et al. 2016), own re-implementation.
# u_j = v^T tanh(W_ref r_j + W_q q);  logits = C * tanh(u);  p = softmax over unvisited cities
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical


class Pointer(nn.Module):
    def __init__(self, d, C=None):
        super().__init__()
        self.Wref = nn.Conv1d(d, d, 1)
        self.Wq = nn.Linear(d, d)
        self.v = nn.Parameter(torch.empty(d).uniform_(-d ** -0.5, d ** -0.5))
        self.C = C

    def forward(self, q, ref):
        # q (B,d); ref (B,N,d) -> projected refs (B,d,N), logits (B,N)
        e = self.Wref(ref.transpose(1, 2))
        u = torch.einsum('d,bdn->bn', self.v, torch.tanh(e + self.Wq(q)[:, :, None]))
        if self.C is not None:
            u = self.C * torch.tanh(u)
        return e, u


class TourDecoder(nn.Module):
    """Builds a tour city by city. The LSTM state is the usual pair (h, c)."""

    def __init__(self, d=64, glimpses=1, C=10.):
        super().__init__()
        self.cell = nn.LSTMCell(d, d)
        self.glimpse = Pointer(d)
        self.pointer = Pointer(d, C)
        self.n_glimpses = glimpses
        self.start = nn.Parameter(torch.randn(d) * 0.1)

    def step(self, inp, state, ref, visited):
        h, c = self.cell(inp, state)
        q = h
        for _ in range(self.n_glimpses):
            e, u = self.glimpse(q, ref)
            a = F.softmax(u.masked_fill(visited, -float('inf')), dim=1)
            # the glimpse reads the projected references, as in the authors' code
            q = torch.bmm(e, a[:, :, None])[:, :, 0]
        _, logits = self.pointer(q, ref)
        logp = F.log_softmax(logits.masked_fill(visited, -float('inf')), dim=1)
        return logp, (h, c)

    def forward(self, ref, state, greedy=False, tour=None):
        """
        ref   (B, N, d) encoded cities
        state (h0, c0), each (B, d)
        tour  optional (B, N) given tour: its log-likelihood is computed instead
        returns tour (B, N) and log-likelihood (B,)
        """
        B, N, d = ref.shape
        visited = torch.zeros(B, N, dtype=torch.bool, device=ref.device)
        inp = self.start.expand(B, d)
        picks, ll = [], 0.
        rows = torch.arange(B, device=ref.device)
        for t in range(N):
            logp, state = self.step(inp, state, ref, visited)
            if tour is not None:
                nxt = tour[:, t]
            elif greedy:
                nxt = logp.argmax(1)
            else:
                nxt = Categorical(logits=logp).sample()
            ll = ll + logp[rows, nxt]
            visited = visited.scatter(1, nxt[:, None], True)
            inp = ref[rows, nxt]
            picks.append(nxt)
        return torch.stack(picks, 1), ll


class TSPNet(nn.Module):
    def __init__(self, d=64):
        super().__init__()
        self.emb = nn.Linear(2, d)
        self.enc = nn.LSTM(d, d, batch_first=True)
        self.dec = TourDecoder(d)

    def forward(self, xy, greedy=False):
        ref, (h, c) = self.enc(self.emb(xy))
        return self.dec(ref, (h[0], c[0]), greedy)


def tour_length(xy, tour):
    p = xy.gather(1, tour[:, :, None].expand(-1, -1, 2))
    return (p - p.roll(-1, dims=1)).norm(dim=-1).sum(1)
