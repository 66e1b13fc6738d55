# Neural Combinatorial Optimization, TSP.  Pointer network decoder with glimpse.
import torch
import torch.nn as nn


class Attention(nn.Module):
    """Bahdanau scores u_i = v . tanh(W_q q + W_r r_i), optionally clipped to
    [-C, C] with C * tanh(u) (Bello et al., eq. 16).

    query [B, D], ref [B, N, D] -> projected ref [B, N, D], logits [B, N]
    The logits are not normalised here: the caller masks cities first.
    """

    def __init__(self, dim, use_tanh=False, C=10):
        super().__init__()
        self.use_tanh = use_tanh
        self.C = C
        self.project_query = nn.Linear(dim, dim)
        self.project_ref = nn.Conv1d(dim, dim, 1)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-dim ** -0.5, dim ** -0.5))

    def forward(self, query, ref):
        q = self.project_query(query).unsqueeze(1)
        e = self.project_ref(ref.permute(0, 2, 1)).permute(0, 2, 1)
        u = torch.matmul(torch.tanh(q + e), self.v)
        return e, self.C * torch.tanh(u) if self.use_tanh else u


class PointerDecoder(nn.Module):
    """One decoding step.  visited: bool [B, N], True = may not be chosen again.

    returns log-probabilities [B, N] and the glimpse [B, D]
    """

    def __init__(self, dim, n_glimpses=1, tanh_clip=10):
        super().__init__()
        self.n_glimpses = n_glimpses
        self.glimpse = Attention(dim, use_tanh=False)
        self.pointer = Attention(dim, use_tanh=True, C=tanh_clip)

    def forward(self, h, enc, visited):
        g = h
        for _ in range(self.n_glimpses):
            ref, u = self.glimpse(g, enc)
            p = u.masked_fill(visited, float("-inf")).softmax(dim=1)
            g = torch.bmm(p.unsqueeze(1), ref).squeeze(1)
        _, u = self.pointer(g, enc)
        u = u.masked_fill(visited, float("-inf"))
        return torch.log_softmax(u, dim=1), g


class TSPSolver(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.encoder = nn.LSTM(dim, dim, batch_first=True)
        self.cell = nn.LSTMCell(dim, dim)
        self.decoder = PointerDecoder(dim)
        self.start = nn.Parameter(torch.zeros(dim))

    def forward(self, coords, greedy=True):
        b, n, _ = coords.shape
        x = self.embed(coords)
        enc, (h, c) = self.encoder(x)
        h, c = h[0], c[0]
        visited = torch.zeros(b, n, dtype=torch.bool, device=coords.device)
        inp = self.start.expand(b, -1)
        tour, total = [], 0.0
        for _ in range(n):
            h, c = self.cell(inp, (h, c))
            logp, _ = self.decoder(h, enc, visited)
            a = logp.argmax(1) if greedy else torch.distributions.Categorical(logits=logp).sample()
            total = total + logp.gather(1, a[:, None]).squeeze(1)
            visited = visited.scatter(1, a[:, None], True)
            inp = x[torch.arange(b), a]
            tour.append(a)
        return torch.stack(tour, 1), total


def tour_length(coords, tour):
    p = coords.gather(1, tour.unsqueeze(-1).expand(-1, -1, 2))
    return (p - p.roll(-1, dims=1)).norm(dim=-1).sum(1)
