import torch
import torch.nn as nn


class LineupPool(nn.Module):
    """Summarise the players of a squad in `n_seeds` vectors (set pooling by attention).

    players : (B, P, dim)
    injured : (B, P) bool, True = player is out and must not count.
    If everybody is out, the pooled vector is zero (before the output layer, which
    has no bias), so that the match model just sees "nothing".
    """

    def __init__(self, dim=20, n_seeds=2, heads=2):
        super().__init__()
        self.seeds = nn.Parameter(torch.randn(n_seeds, dim))
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim, bias=False)
        self.heads = heads

    def forward(self, players, injured=None):
        B, P, D = players.shape
        h, d = self.heads, D // self.heads
        q = self.seeds.view(-1, h, d)
        k = self.k(players).view(B, P, h, d)
        v = self.v(players).view(B, P, h, d)
        e = torch.einsum("shd,bphd->bhsp", q, k) / d ** 0.5
        # softmax by hand: an all-injured squad has to give 0 rather than nan
        e = e - e.amax(dim=-1, keepdim=True).detach()
        w = e.exp()
        if injured is not None:
            e = e.masked_fill(injured[:, None, None, :], torch.finfo(e.dtype).min)
            e = e - e.amax(dim=-1, keepdim=True).detach()
            w = e.exp() * (~injured)[:, None, None, :]
        w = w / w.sum(-1, keepdim=True).clamp_min(1e-9)
        pooled = torch.einsum("bhsp,bphd->bshd", w, v).reshape(B, -1, D)
        return self.o(pooled)


class MatchOdds(nn.Module):
    """Three-way odds (home, draw, away) from two squads."""

    def __init__(self, dim=20):
        super().__init__()
        self.pool = LineupPool(dim)
        self.mlp = nn.Sequential(nn.Linear(4 * dim, 32), nn.ReLU(), nn.Linear(32, 3))

    def forward(self, home, away, home_out=None, away_out=None):
        a = self.pool(home, home_out).flatten(1)
        b = self.pool(away, away_out).flatten(1)
        return self.mlp(torch.cat([a, b], 1)).log_softmax(-1)
