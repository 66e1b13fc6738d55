"""Neural combinatorial optimisation (Bello et al.): pointer network actor for the TSP.

Glimpse + pointer, logits clipped with C*tanh before masking visited cities.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Pointer(nn.Module):
    def __init__(self, hidden, C=10., use_tanh=True):
        super().__init__()
        self.C, self.use_tanh = C, use_tanh
        self.Wq = nn.Linear(hidden, hidden)
        self.Wref = nn.Conv1d(hidden, hidden, 1)
        k = 1. / math.sqrt(hidden)
        self.V = nn.Parameter(torch.empty(hidden).uniform_(-k, k))

    def forward(self, query, ref):
        """query [B,h], ref [B,n,h] -> projected ref [B,h,n], logits [B,n]"""
        r = self.Wref(ref.permute(0, 2, 1))
        q = self.Wq(query)[:, :, None]
        u = torch.einsum('h,bhn->bn', self.V, torch.tanh(q + r))
        if self.use_tanh:
            u = self.C * torch.tanh(u)
        return r, u


class TSPActor(nn.Module):
    def __init__(self, embed=16, hidden=24, n_glimpses=1, tanh_c=10., seed_city=None):
        super().__init__()
        self.inp = nn.Linear(2, embed, bias=False)
        self.enc = nn.LSTM(embed, hidden, batch_first=True)
        self.dec = nn.LSTMCell(embed, hidden)
        self.glimpse = Pointer(hidden, use_tanh=False)
        self.pointer = Pointer(hidden, C=tanh_c)
        self.n_glimpses = n_glimpses
        self.start = nn.Parameter(torch.zeros(embed).uniform_(-.1, .1))

    @staticmethod
    def hide(u, visited):
        u = u.clone()
        u[visited] = float('-inf')
        return u

    def forward(self, xy, tour=None):
        """
        xy   [B, n, 2] city coordinates
        tour [B, n] optional: evaluate this tour instead of decoding greedily
        returns (tour [B,n], log_prob [B], step probabilities [B,n,n])
        """
        B, n, _ = xy.shape
        e = self.inp(xy)
        ref, (h, c) = self.enc(e)
        h, c = h[0], c[0]
        x = self.start.expand(B, -1)
        visited = torch.zeros(B, n, dtype=torch.bool, device=xy.device)
        rows = torch.arange(B, device=xy.device)
        picks, probs, logp = [], [], 0.
        for t in range(n):
            h, c = self.dec(x, (h, c))
            g = h
            for _ in range(self.n_glimpses):
                r, u = self.glimpse(g, ref)
                w = F.softmax(self.hide(u, visited), dim=1)
                g = torch.bmm(r, w.unsqueeze(2)).squeeze(2)
            _, u = self.pointer(g, ref)
            p = F.softmax(self.hide(u, visited), dim=1)
            a = p.argmax(1) if tour is None else tour[:, t]
            logp = logp + torch.log(p[rows, a] + 1e-20)
            picks.append(a)
            probs.append(p)
            visited = visited.scatter(1, a[:, None], True)
            x = e[rows, a]
        return torch.stack(picks, 1), logp, torch.stack(probs, 1)


def tour_length(xy, tour):
    p = xy.gather(1, tour[..., None].expand(-1, -1, 2))
    return (p - p.roll(-1, 1)).norm(dim=-1).sum(1)
