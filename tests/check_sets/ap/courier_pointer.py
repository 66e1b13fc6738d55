"""Pointer network for courier routes (choose the next stop, never one twice)."""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Pointer(nn.Module):
    """u_j = v . tanh(W1 e_j + W2 d);   forbidden stops get probability 0."""

    def __init__(self, hid, clip=None):
        super().__init__()
        self.W1 = nn.Linear(hid, hid, bias=False)
        self.W2 = nn.Linear(hid, hid, bias=True)
        self.v = nn.Parameter(torch.empty(hid).uniform_(-hid ** -0.5, hid ** -0.5))
        self.clip = clip

    def forward(self, dec, stops, forbidden):
        """dec [B,H]; stops [B,N,H]; forbidden bool [B,N] (True = may not be chosen)"""
        u = torch.tanh(self.W1(stops) + self.W2(dec).unsqueeze(1)) @ self.v
        if self.clip is not None:
            u = self.clip * torch.tanh(u)
        u = u.masked_fill(forbidden, float("-inf"))
        return torch.log_softmax(u, dim=1)


class Glimpse(nn.Module):
    """One content-based read of the stops before pointing."""

    def __init__(self, hid):
        super().__init__()
        self.score = Pointer(hid)

    def forward(self, dec, stops, forbidden):
        p = self.score(dec, stops, forbidden).exp()
        return torch.bmm(p.unsqueeze(1), stops).squeeze(1)


class CourierNet(nn.Module):
    def __init__(self, feat=2, hid=64, glimpses=1, clip=10.0):
        super().__init__()
        self.embed = nn.Linear(feat, hid)
        self.enc = nn.LSTM(hid, hid, batch_first=True)
        self.cell = nn.LSTMCell(hid, hid)
        self.glimpse = nn.ModuleList(Glimpse(hid) for _ in range(glimpses))
        self.point = Pointer(hid, clip)
        self.start = nn.Parameter(torch.randn(hid) * 0.1)

    def forward(self, xy, absent=None, greedy=True, forced=None):
        """xy [B,N,feat]; absent bool [B,N], True for filler rows (at the end).

        At least one stop has to be present.  Rows whose stops are used up keep
        pointing at their last stop with log-probability 0.
        Returns tour [B,N] and the log-probability of every choice [B,N].
        """
        B, N, _ = xy.shape
        e = self.embed(xy)
        if absent is None:
            absent = torch.zeros(B, N, dtype=torch.bool, device=xy.device)
        packed = pack_padded_sequence(e, (~absent).sum(1).cpu(), batch_first=True, enforce_sorted=False)
        stops, (h, c) = self.enc(packed)
        stops, _ = pad_packed_sequence(stops, batch_first=True, total_length=N)
        h, c = h[0], c[0]
        inp = self.start.expand(B, -1)
        used = absent.clone()
        tour, lps = [], []
        last = torch.zeros(B, dtype=torch.long, device=xy.device)
        for t in range(N):
            done = used.all(1)
            block = used.clone()
            block[done, last[done]] = False
            h, c = self.cell(inp, (h, c))
            d = h
            for g in self.glimpse:
                d = d + g(d, stops, block)
            logp = self.point(d, stops, block)
            if forced is not None:
                pick = torch.where(done, last, forced[:, t])
            elif greedy:
                pick = logp.argmax(1)
            else:
                pick = torch.multinomial(logp.exp(), 1).squeeze(1)
            lps.append(logp.gather(1, pick[:, None]).squeeze(1))
            tour.append(pick)
            last = pick
            used = used.scatter(1, pick[:, None], True)
            inp = e[torch.arange(B, device=xy.device), pick]
        return torch.stack(tour, 1), torch.stack(lps, 1)


def tour_length(xy, tour):
    p = xy.gather(1, tour[..., None].expand(-1, -1, xy.size(-1)))
    return (p - p.roll(-1, 1)).norm(dim=-1).sum(1)
