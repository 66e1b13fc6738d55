"""Pointer decoder for delivery tours (Bello et al. 2016).

At each step the decoder state takes one glimpse at the stops that are still open and
then points at the next one.  Scores are additive, v^T tanh(W_ref e_j + W_q q); the
pointing logits are squashed to [-clip, clip] *before* closed stops are removed.
"""
import torch
import torch.nn as nn


class AdditiveScore(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w_ref = nn.Linear(dim, dim)
        self.w_q = nn.Linear(dim, dim, bias=False)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-0.5, 0.5))

    def forward(self, query, ref):
        # query B x D, ref B x N x D  ->  B x N
        return torch.tanh(self.w_ref(ref) + self.w_q(query)[:, None]) @ self.v


class RoutePointer(nn.Module):
    def __init__(self, dim=16, clip=10.0):
        super().__init__()
        self.embed = nn.Linear(2, dim)
        self.encoder = nn.LSTM(dim, dim, batch_first=True)
        self.cell = nn.LSTMCell(dim, dim)
        self.glimpse = AdditiveScore(dim)
        self.pointer = AdditiveScore(dim)
        self.start = nn.Parameter(torch.zeros(dim))
        self.clip = clip

    def step(self, inp, state, enc, closed):
        h, c = self.cell(inp, state)
        g = self.glimpse(h, enc).masked_fill(closed, float("-inf"))
        g = torch.softmax(g, dim=-1)
        q = torch.einsum("bn,bnd->bd", g, enc)
        logits = self.clip * torch.tanh(self.pointer(q, enc))
        logits = logits.masked_fill(closed, float("-inf"))
        return torch.log_softmax(logits, dim=-1), (h, c)

    def forward(self, coords):
        """Greedy tour. coords: B x N x 2 -> (tour B x N, log-likelihood B)"""
        B, N, _ = coords.shape
        emb = self.embed(coords)
        enc, (h, c) = self.encoder(emb)
        state = (h[0], c[0])
        closed = torch.zeros(B, N, dtype=torch.bool, device=coords.device)
        inp = self.start.expand(B, -1)
        tour, loglik = [], 0.0
        for _ in range(N):
            logp, state = self.step(inp, state, enc, closed)
            nxt = logp.argmax(dim=-1)
            loglik = loglik + logp.gather(1, nxt[:, None])[:, 0]
            tour.append(nxt)
            closed = closed.scatter(1, nxt[:, None], True)
            inp = emb[torch.arange(B, device=coords.device), nxt]
        return torch.stack(tour, 1), loglik


if __name__ == "__main__":
    torch.manual_seed(3)
    tour, ll = RoutePointer()(torch.rand(2, 6, 2))
    print(tour, ll)
