"""
Neural combinatorial optimisation for small TSPs (Bello et al. 2016), actor only.

hand-rolled for the seminar, N <= 20 cities.
The decoder points at one city per step. Cities already in the tour can't be chosen again.
Pointing logits are C * tanh(u), C = 10; the glimpse is plain additive attention.
"""
import torch
import torch.nn as nn


class Scorer(nn.Module):
    """u_i = v . tanh(W_ref r_i + W_q q)"""

    def __init__(self, d, clip=None):
        super().__init__()
        self.wq = nn.Linear(d, d)
        self.wr = nn.Linear(d, d, bias=False)
        self.v = nn.Parameter(torch.empty(d).uniform_(-d ** -0.5, d ** -0.5))
        self.clip = clip

    def forward(self, q, ref):
        u = torch.tanh(self.wr(ref) + self.wq(q)[:, None, :]) @ self.v
        if self.clip is not None:
            u = self.clip * torch.tanh(u)
        return u


class PointerActor(nn.Module):
    def __init__(self, d=32, clip=10.0, n_glimpses=1):
        super().__init__()
        self.embed = nn.Linear(2, d)
        self.enc = nn.LSTM(d, d, batch_first=True)
        self.cell = nn.LSTMCell(d, d)
        self.glimpse = Scorer(d)
        self.pointer = Scorer(d, clip)
        self.first_input = nn.Parameter(torch.randn(d) * 0.1)
        self.n_glimpses = n_glimpses

    def step(self, inp, hc, ref, visited):
        """One pointing step -> log-probabilities [B, N] over cities and the new state.

        visited: bool [B, N], True for cities which are in the tour already.
        A glimpse reads the encoder states with the same mask and replaces the query.
        """
        h, c = self.cell(inp, hc)
        q = h
        for _ in range(self.n_glimpses):
            u = self.glimpse(q, ref).masked_fill(visited, float("-inf"))
            q = (u.softmax(-1)[..., None] * ref).sum(1)
        logits = self.pointer(q, ref).masked_fill(visited, float("-inf"))
        return logits.log_softmax(-1), (h, c)

    def forward(self, xy, greedy=True):
        """xy [B, N, 2] -> tour [B, N], sum of log-probs [B]"""
        B, N, _ = xy.shape
        e = self.embed(xy)
        ref, (h, c) = self.enc(e)
        hc = (h[0], c[0])
        inp = self.first_input.expand(B, -1)
        visited = torch.zeros(B, N, dtype=torch.bool, device=xy.device)
        tour, logp = [], 0.0
        for _ in range(N):
            lp, hc = self.step(inp, hc, ref, visited)
            if greedy:
                city = lp.argmax(-1)
            else:
                city = torch.multinomial(lp.exp(), 1).squeeze(-1)
            logp = logp + lp.gather(1, city[:, None]).squeeze(1)
            visited = visited.scatter(1, city[:, None], True)
            inp = e[torch.arange(B), city]
            tour.append(city)
        return torch.stack(tour, 1), logp


def tour_length(xy, tour):
    p = xy.gather(1, tour[..., None].expand(-1, -1, 2))
    return (p - p.roll(-1, 1)).norm(dim=-1).sum(1)


if __name__ == "__main__":
    torch.manual_seed(1)
    actor = PointerActor()
    xy = torch.rand(4, 8, 2)
    tour, logp = actor(xy, greedy=False)
    print(tour)
    print(tour_length(xy, tour).mean().item(), logp.mean().item())
