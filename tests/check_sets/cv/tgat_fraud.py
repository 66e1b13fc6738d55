import torch
import torch.nn as nn


class TimeCode(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.w = nn.Parameter(10.0 ** -torch.linspace(0, 4, n))
        self.b = nn.Parameter(torch.zeros(n))

    def forward(self, dt):
        return torch.cos(dt.unsqueeze(-1) * self.w + self.b)


class TemporalNeighbours(nn.Module):
    """One TGAT layer for payment graphs.

    h      (M, F)      the accounts asked for
    t      (M,)        time of the question
    nb_h   (M, N, F)   their sampled neighbours
    nb_e   (M, N, E)   features of the payments
    nb_t   (M, N)      time of the payments, <= t
    empty  (M, N) bool True = no neighbour in this place of the sample

    Query: [h, code(0)]; keys and values: [nb_h, nb_e, code(t - nb_t)]. An account without any
    neighbour gets a zero message. Output: (M, F) = MLP([message, h]).
    """

    def __init__(self, F=12, E=3, C=5, heads=2, d=8):
        super().__init__()
        self.heads, self.d = heads, d
        self.code = TimeCode(C)
        self.Wq = nn.Linear(F + C, heads * d)
        self.Wk = nn.Linear(F + E + C, heads * d)
        self.Wv = nn.Linear(F + E + C, heads * d)
        self.mlp = nn.Sequential(nn.Linear(heads * d + F, F), nn.ReLU(), nn.Linear(F, F))

    def message(self, h, t, nb_h, nb_e, nb_t, empty):
        M, N, _ = nb_h.shape
        q = self.Wq(torch.cat([h, self.code(torch.zeros_like(t))], -1)).view(M, self.heads, self.d)
        kv = torch.cat([nb_h, nb_e, self.code(t[:, None] - nb_t)], -1)
        kv = kv.masked_fill(empty[..., None], 0.0)          # whatever stands in empty places
        k = self.Wk(kv).view(M, N, self.heads, self.d)
        v = self.Wv(kv).view(M, N, self.heads, self.d)
        s = torch.einsum("mhd,mnhd->mhn", q, k).div(self.d ** 0.5)
        gone = empty[:, None, :]
        s = s.masked_fill(gone, torch.finfo(s.dtype).min)
        a = torch.softmax(s, -1).masked_fill(gone, 0.0)     # all empty: 1/N everywhere -> 0
        return torch.einsum("mhn,mnhd->mhd", a, v).flatten(1)

    def forward(self, h, t, nb_h, nb_e, nb_t, empty):
        return self.mlp(torch.cat([self.message(h, t, nb_h, nb_e, nb_t, empty), h], -1))
