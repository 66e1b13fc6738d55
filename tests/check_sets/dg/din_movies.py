# MovieLens kernel: target-aware history (DIN-like, softmax-normalised)
import torch
import torch.nn as nn


class HistoryUnit(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4 * dim, 32), nn.PReLU(), nn.Linear(32, 1))

    def forward(self, item, hist, n):
        """item (B, D), hist (B, L, D), n (B,) true lengths; users with n = 0 get zeros."""
        t = item.unsqueeze(1).expand(-1, hist.size(1), -1)
        s = self.net(torch.cat([t, hist, t - hist, t * hist], dim=-1)).squeeze(-1)
        ok = torch.arange(hist.size(1), device=hist.device) < n.unsqueeze(1)
        s = s.masked_fill(~ok, torch.finfo(s.dtype).min)
        w = s.softmax(dim=1).masked_fill(~ok, 0.0)
        return torch.bmm(w.unsqueeze(1), hist).squeeze(1)


class MovieDIN(nn.Module):
    def __init__(self, movies=200, users=100, dim=16):
        super().__init__()
        self.movie = nn.Embedding(movies, dim)
        self.user = nn.Embedding(users, dim)
        self.unit = HistoryUnit(dim)
        self.mlp = nn.Sequential(nn.Linear(3 * dim, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, user, movie, hist, n):
        m = self.movie(movie)
        interest = self.unit(m, self.movie(hist), n)
        return self.mlp(torch.cat([self.user(user), interest, m], dim=1)).squeeze(1)
