"""Pointer network for the travelling salesman (Vinyals et al. 2015), greedy decoder.

xy (B, n, 2) cities in the unit square -> tour (B, n) of city indices, logp (B, n, n) with the
log-probabilities of every step.

    u_j = v^T tanh(W1 e_j + W2 d)      e_j encoder states, d decoder state
    p   = softmax(u) over the cities not visited yet
"""
import torch
import torch.nn as nn


class Pointer(nn.Module):
    def __init__(self, hid):
        super().__init__()
        self.W1 = nn.Linear(hid, hid, bias=False)
        self.W2 = nn.Linear(hid, hid, bias=False)
        self.v = nn.Parameter(torch.randn(hid) * hid ** -0.5)

    def forward(self, e, d, visited):
        # e (B, n, hid), d (B, hid), visited (B, n) bool: True = has been visited
        u = (self.W1(e) + self.W2(d)[:, None, :]) @ self.v
        u = u.masked_fill(visited, float("-inf"))
        return torch.log_softmax(u, dim=-1)


class PtrNet(nn.Module):
    def __init__(self, hid=32):
        super().__init__()
        self.embed = nn.Linear(2, hid)
        self.enc = nn.LSTM(hid, hid, batch_first=True)
        self.dec = nn.LSTMCell(hid, hid)
        self.start = nn.Parameter(torch.zeros(hid))
        self.pointer = Pointer(hid)

    def forward(self, xy):
        B, n, _ = xy.shape
        x = torch.tanh(self.embed(xy))
        e, (h, c) = self.enc(x)
        h, c = h[0], c[0]
        inp = self.start.expand(B, -1)
        visited = torch.zeros(B, n, dtype=torch.bool, device=xy.device)
        tour, logps = [], []
        for _ in range(n):
            h, c = self.dec(inp, (h, c))
            logp = self.pointer(e, h, visited)
            nxt = logp.argmax(-1)
            visited = visited.scatter(1, nxt[:, None], True)
            inp = x.gather(1, nxt[:, None, None].expand(-1, 1, x.size(-1))).squeeze(1)
            tour.append(nxt)
            logps.append(logp)
        return torch.stack(tour, 1), torch.stack(logps, 1)
