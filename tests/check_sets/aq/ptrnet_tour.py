"""Pointer network for tours (Vinyals et al.), used by the picker routing service."""
import torch
import torch.nn as nn


class Pointer(nn.Module):
    """Additive pointer, u_j = v^T tanh(W1 e_j + W2 d); cities that were visited are out.

    enc [B, N, H]; dec [B, H]; visited [B, N] bool, at least one city still open.
    """

    def __init__(self, hidden):
        super().__init__()
        self.W1 = nn.Linear(hidden, hidden, bias=False)
        self.W2 = nn.Linear(hidden, hidden, bias=False)
        self.v = nn.Linear(hidden, 1, bias=False)

    def forward(self, enc, dec, visited):
        mix = self.W1(enc) + self.W2(dec).unsqueeze(1)
        u = self.v(mix).squeeze(-1)
        u = u.masked_fill(visited, float("-inf"))
        return u.log_softmax(dim=-1)


class PtrNet(nn.Module):
    def __init__(self, coords=2, hidden=64):
        super().__init__()
        self.embed = nn.Linear(coords, hidden)
        self.encoder = nn.LSTM(hidden, hidden, batch_first=True)
        self.cell = nn.LSTMCell(hidden, hidden)
        self.pointer = Pointer(hidden)
        self.start = nn.Parameter(torch.randn(hidden) * 0.05)

    def forward(self, xy, greedy=True):
        b, n, _ = xy.shape
        e = self.embed(xy)
        enc, (h, c) = self.encoder(e)
        h, c = h[0], c[0]
        inp = self.start.expand(b, -1)
        visited = torch.zeros(b, n, dtype=torch.bool, device=xy.device)
        tour, logps = [], []
        for _ in range(n):
            h, c = self.cell(inp, (h, c))
            logp = self.pointer(enc, h, visited)
            pick = logp.argmax(-1) if greedy else torch.multinomial(logp.exp(), 1).squeeze(1)
            visited = visited.scatter(1, pick[:, None], True)
            logps.append(logp.gather(1, pick[:, None]).squeeze(1))
            tour.append(pick)
            inp = e[torch.arange(b), pick]
        return torch.stack(tour, 1), torch.stack(logps, 1)


def tour_length(xy, tour):
    p = xy.gather(1, tour[..., None].expand(-1, -1, xy.shape[-1]))
    return (p - p.roll(-1, dims=1)).norm(dim=-1).sum(1)


def reinforce_loss(xy, logp, tour, baseline):
    adv = tour_length(xy, tour) - baseline
    return (adv.detach() * logp.sum(1)).mean()
