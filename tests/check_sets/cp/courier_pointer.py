"""Pointer network that orders the stops of a courier (Vinyals et al. 2015).

The pointing itself is the attention: at each step the decoder state is compared
with every encoded stop by an additive score, u_j = v . tanh(W1 e_j + W2 d), and
softmax(u) over the stops that are still open is the probability of going there
next. Visited and padded stops get probability zero.
"""
import torch
import torch.nn as nn


class CourierPointer(nn.Module):
    def __init__(self, features: int = 2, hidden: int = 32):
        super().__init__()
        self.embed = nn.Linear(features, hidden)
        self.encoder = nn.LSTM(hidden, hidden, batch_first=True)
        self.cell = nn.LSTMCell(hidden, hidden)
        self.start = nn.Parameter(torch.zeros(hidden))
        self.W1 = nn.Linear(hidden, hidden, bias=False)
        self.W2 = nn.Linear(hidden, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)

    def point(self, keys, d, closed):
        """keys (B, N, H) = W1 e, d (B, H), closed (B, N) True = cannot go there."""
        u = self.v(torch.tanh(keys + self.W2(d).unsqueeze(1))).squeeze(-1)
        return u.masked_fill(closed, float("-inf")).softmax(dim=-1)

    def forward(self, stops: torch.Tensor, n_stops: torch.Tensor = None):
        """
        stops:   (B, N, features) coordinates; stop 0 is the first in the list, not special
        n_stops: (B,) real stops per courier (the rest is padding), default all N

        Greedy decoding. Returns
          tour   (B, N) indices in order of visit; after the last real stop filled with -1
          probs  (B, N, N) probs[b, t, j] = probability of stop j at step t (zeros after the end)
        """
        B, N, _ = stops.shape
        if n_stops is None:
            n_stops = torch.full((B,), N, device=stops.device)
        x = self.embed(stops)
        enc, _ = self.encoder(x)
        rows = torch.arange(B, device=stops.device)
        # state of the LSTM at the last real stop
        h = enc[rows, n_stops - 1]
        c = torch.zeros_like(h)
        keys = self.W1(enc)

        closed = torch.arange(N, device=stops.device)[None] >= n_stops[:, None]
        inp = self.start.expand(B, -1)
        tour, probs = [], []
        for _ in range(N):
            h, c = self.cell(inp, (h, c))
            done = closed.all(dim=1)
            # a finished courier points at stop 0, thrown away below
            safe = closed.clone()
            safe[done, 0] = False
            p = self.point(keys, h, safe)
            choice = p.argmax(dim=-1)
            probs.append(p.masked_fill(done[:, None], 0.0))
            tour.append(choice.masked_fill(done, -1))
            closed = closed.clone()
            closed[rows, choice] = True
            inp = x[rows, choice]
        return torch.stack(tour, 1), torch.stack(probs, 1)
