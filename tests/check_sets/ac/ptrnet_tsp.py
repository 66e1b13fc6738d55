"""Pointer network for TSP (Vinyals et al. 2015; glimpses and logit clipping after Bello et al. 2016)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Pointer(nn.Module):
    def __init__(self, hid, clip=None):
        super().__init__()
        self.W_ref = nn.Conv1d(hid, hid, 1)
        self.W_q = nn.Linear(hid, hid)
        self.V = nn.Parameter(torch.empty(hid).uniform_(-hid ** -0.5, hid ** -0.5))
        self.clip = clip

    def forward(self, q, ref, visited):
        """q (B, H); ref (L, B, H); visited (B, L), True where the city is already in the tour.
        Returns the projected refs (B, H, L) and the logits (B, L)."""
        r = self.W_ref(ref.permute(1, 2, 0))
        u = self.W_q(q).unsqueeze(2)
        logits = torch.einsum("h,bhl->bl", self.V, torch.tanh(u + r))
        if self.clip is not None:
            logits = self.clip * torch.tanh(logits)
        return r, logits.masked_fill(visited, float("-inf"))


class PtrNet(nn.Module):
    def __init__(self, hid=32, n_glimpses=1, clip=10.0):
        super().__init__()
        self.hid, self.n_glimpses = hid, n_glimpses
        self.embed = nn.Linear(2, hid)
        self.encoder = nn.LSTM(hid, hid)           # length first
        self.decoder = nn.LSTMCell(hid, hid)
        self.glimpse = Pointer(hid)
        self.pointer = Pointer(hid, clip)
        self.start = nn.Parameter(torch.zeros(hid).uniform_(-0.1, 0.1))

    def forward(self, coords, tour=None):
        """coords (B, L, 2). Without `tour` decode greedily, with it score the given tour.
        Returns tour (B, L) and its log probability (B,)."""
        B, L, _ = coords.shape
        x = self.embed(coords).transpose(0, 1)
        ref, (h, c) = self.encoder(x)
        h, c = h[0], c[0]
        inp = self.start.expand(B, -1)
        visited = torch.zeros(B, L, dtype=torch.bool, device=coords.device)
        picks, total = [], coords.new_zeros(B)
        for t in range(L):
            h, c = self.decoder(inp, (h, c))
            q = h
            for _ in range(self.n_glimpses):
                r, g = self.glimpse(q, ref, visited)
                q = torch.bmm(r, F.softmax(g, dim=1).unsqueeze(2)).squeeze(2)
            _, logits = self.pointer(q, ref, visited)
            logp = F.log_softmax(logits, dim=1)
            nxt = logp.argmax(1) if tour is None else tour[:, t]
            total = total + logp.gather(1, nxt[:, None]).squeeze(1)
            visited = visited.scatter(1, nxt[:, None], True)
            picks.append(nxt)
            inp = x[nxt, torch.arange(B, device=coords.device)]
        return torch.stack(picks, 1), total


def tour_length(coords, tour):
    pts = coords.gather(1, tour[..., None].expand(-1, -1, 2))
    return (pts - pts.roll(-1, 1)).norm(dim=-1).sum(1)
