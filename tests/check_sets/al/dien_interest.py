"""DIEN-type click model: interest extraction by a GRU, target attention by an activation unit.

History is padded on the right with item 0.  The activation unit is the one of DIN
(MLP over [q, k, q - k, q * k]) but, as in DIEN, its scores go through a softmax over the history.
"""
import torch
from torch import nn


class Dice(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.bn = nn.BatchNorm1d(dim, affine=False)
        self.alpha = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        p = torch.sigmoid(self.bn(flat)).view_as(x)
        return p * x + (1 - p) * self.alpha * x


class ActivationUnit(nn.Module):
    """target [B, D], history [B, T, D], seen [B, T] bool (True = real click).

    Returns the interest vector [B, D] and the weights [B, T]; users without clicks get zeros.
    """

    def __init__(self, dim, hidden=(80, 40)):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(4 * dim, hidden[0]), nn.Sigmoid(),
                                 nn.Linear(hidden[0], hidden[1]), nn.Sigmoid(), nn.Linear(hidden[1], 1))

    def forward(self, target, history, seen):
        q = target.unsqueeze(1).expand_as(history)
        s = self.mlp(torch.cat([q, history, q - history, q * history], dim=-1)).squeeze(-1)
        s = s.masked_fill(~seen, -1e9)
        w = torch.softmax(s, dim=1) * seen.any(dim=1, keepdim=True)
        return torch.einsum("bt,btd->bd", w, history), w


class AUGRUCell(nn.Module):
    """GRU whose update gate is scaled by the attention weight of the step."""

    def __init__(self, dim):
        super().__init__()
        self.x = nn.Linear(dim, 3 * dim)
        self.h = nn.Linear(dim, 3 * dim, bias=False)

    def forward(self, x, h, a):
        xu, xr, xn = self.x(x).chunk(3, -1)
        hu, hr, hn = self.h(h).chunk(3, -1)
        u = torch.sigmoid(xu + hu) * a[:, None]
        n = torch.tanh(xn + torch.sigmoid(xr + hr) * hn)
        return (1 - u) * h + u * n


class ClickModel(nn.Module):
    def __init__(self, n_items, n_users, dim=32):
        super().__init__()
        self.item = nn.Embedding(n_items, dim, padding_idx=0)
        self.user = nn.Embedding(n_users, dim)
        self.gru = nn.GRU(dim, dim, batch_first=True)
        self.unit = ActivationUnit(dim)
        self.evolve = AUGRUCell(dim)
        self.top = nn.Sequential(nn.Linear(4 * dim, 64), Dice(64), nn.Linear(64, 1))

    def forward(self, user, target, history):
        seen = history > 0
        t = self.item(target)
        states, _ = self.gru(self.item(history))
        pooled, w = self.unit(t, states, seen)
        h = torch.zeros_like(t)
        for i in range(history.shape[1]):
            h = torch.where(seen[:, i, None], self.evolve(states[:, i], h, w[:, i]), h)
        return self.top(torch.cat([self.user(user), t, pooled, h], -1)).squeeze(-1)
