# neural combinatorial optimisation with RL -- pointer decoder for the TSP
import torch
import torch.nn as nn


class Glimpse(nn.Module):
    """additive attention, u_j = v . tanh(W_ref r_j + W_q q)"""

    def __init__(self, dim, clip=None):
        super().__init__()
        self.W_q = nn.Linear(dim, dim)
        self.W_ref = nn.Conv1d(dim, dim, 1)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-dim ** -.5, dim ** -.5))
        self.clip = clip

    def forward(self, q, ref, visited):
        """q: B x D,  ref: B x N x D,  visited: B x N bool
        returns the projected references B x D x N and masked logits B x N"""
        e = self.W_ref(ref.transpose(1, 2))
        u = torch.einsum("d,bdn->bn", self.v, torch.tanh(e + self.W_q(q).unsqueeze(2)))
        if self.clip is not None:
            u = self.clip * torch.tanh(u)
        # a city can be entered only once; at least one city is open as long as the tour is not over
        u = u.masked_fill(visited, float("-inf"))
        return e, u


class PointerDecoder(nn.Module):
    def __init__(self, dim=32, n_glimpses=1, clip=10.0):
        super().__init__()
        self.cell = nn.LSTMCell(dim, dim)
        self.glimpse = Glimpse(dim)
        self.pointer = Glimpse(dim, clip)
        self.n_glimpses = n_glimpses
        self.start = nn.Parameter(torch.randn(dim) * 0.1)

    def step(self, x, state, ref, visited):
        h, c = self.cell(x, state)
        q = h
        for _ in range(self.n_glimpses):
            e, u = self.glimpse(q, ref, visited)
            q = torch.bmm(e, u.softmax(dim=1).unsqueeze(2)).squeeze(2)
        _, logits = self.pointer(q, ref, visited)
        return logits.log_softmax(dim=1), (h, c)

    def forward(self, ref, state=None, greedy=True):
        B, N, D = ref.shape
        if state is None:
            state = (ref.mean(1), ref.new_zeros(B, D))
        x = self.start.expand(B, D)
        visited = torch.zeros(B, N, dtype=torch.bool, device=ref.device)
        tour, logp = [], 0.
        for _ in range(N):
            lp, state = self.step(x, state, ref, visited)
            a = lp.argmax(1) if greedy else lp.exp().multinomial(1).squeeze(1)
            logp = logp + lp.gather(1, a[:, None]).squeeze(1)
            visited = visited.scatter(1, a[:, None], True)
            x = ref.gather(1, a.view(B, 1, 1).expand(B, 1, D)).squeeze(1)
            tour.append(a)
        return torch.stack(tour, 1), logp


class TSPNet(nn.Module):
    def __init__(self, dim=32):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.enc = nn.LSTM(dim, dim, batch_first=True)
        self.dec = PointerDecoder(dim)

    def forward(self, xy):
        ref, (h, c) = self.enc(self.embed(xy))
        return self.dec(ref, (h[0], c[0]))
