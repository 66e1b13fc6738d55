"""Pointer network for TSP (Vinyals 2015, with the glimpse and logit clipping of Bello 2016)."""
import torch
import torch.nn as nn


class Pointer(nn.Module):
    """u_j = C * tanh(v . tanh(W_ref e_j + W_q q)); visited cities get -inf."""

    def __init__(self, hidden=32, clip=10.0, glimpse=False):
        super().__init__()
        self.W_q = nn.Linear(hidden, hidden)
        self.W_ref = nn.Conv1d(hidden, hidden, 1)
        self.V = nn.Parameter(torch.empty(hidden).uniform_(-hidden ** -0.5, hidden ** -0.5))
        self.clip = None if glimpse else clip

    def forward(self, query, ref, visited):
        """
        query [B, hidden], ref [B, cities, hidden], visited bool [B, cities] (at least one city open)
        returns e [B, hidden, cities], logits [B, cities]
        """
        e = self.W_ref(ref.permute(0, 2, 1))
        q = self.W_q(query).unsqueeze(2)
        u = torch.einsum("h,bhc->bc", self.V, torch.tanh(q + e))
        if self.clip is not None:
            u = self.clip * torch.tanh(u)
        return e, u.masked_fill(visited, float("-inf"))


class PtrNet(nn.Module):
    def __init__(self, hidden=32, n_glimpses=1):
        super().__init__()
        self.embed = nn.Linear(2, hidden)
        self.encoder = nn.LSTM(hidden, hidden, batch_first=True)
        self.decoder = nn.LSTMCell(hidden, hidden)
        self.glimpse = Pointer(hidden, glimpse=True)
        self.pointer = Pointer(hidden)
        self.start = nn.Parameter(torch.randn(hidden) * 0.1)
        self.n_glimpses = n_glimpses

    def forward(self, coords):
        """coords [B, cities, 2]; greedy tour [B, cities] and the log-probabilities of its steps [B, cities]."""
        B, n, _ = coords.shape
        emb = self.embed(coords)
        ref, (h, c) = self.encoder(emb)
        h, c = h[0], c[0]
        visited = torch.zeros(B, n, dtype=torch.bool, device=coords.device)
        x = self.start.expand(B, -1)
        tour, logps = [], []
        for _ in range(n):
            h, c = self.decoder(x, (h, c))
            q = h
            for _ in range(self.n_glimpses):
                e, u = self.glimpse(q, ref, visited)
                q = torch.bmm(e, torch.softmax(u, dim=1).unsqueeze(2)).squeeze(2)
            _, u = self.pointer(q, ref, visited)
            logp = torch.log_softmax(u, dim=1)
            step = logp.argmax(dim=1)
            tour.append(step)
            logps.append(logp.gather(1, step[:, None]).squeeze(1))
            visited = visited.scatter(1, step[:, None], True)
            x = emb[torch.arange(B), step]
        return torch.stack(tour, 1), torch.stack(logps, 1)
