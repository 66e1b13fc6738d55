"""Kolejność pobierania opakowań przez robota aptecznego (sieć wskaźnikowa).

Robot stoi w magazynie leków; dla recepty z N pozycjami model wybiera kolejno szuflady.
Logity wskaźnika są ograniczone: C * tanh(u), C = 10 (Bello i in., 2017).
"""
import torch
import torch.nn as nn


class Addytywna(nn.Module):
    """u_j = v^T tanh(W_k k_j + W_q q); zwraca logity i rzutowane klucze."""

    def __init__(self, dim, clip=None):
        super().__init__()
        self.wq = nn.Linear(dim, dim)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.v = nn.Parameter(torch.empty(dim).uniform_(-dim ** -0.5, dim ** -0.5))
        self.clip = clip

    def forward(self, q, k):
        e = self.wk(k)
        u = torch.tanh(e + self.wq(q)[:, None, :]) @ self.v
        if self.clip is not None:
            u = self.clip * torch.tanh(u)
        return u, e


class Wskaznik(nn.Module):
    """Jedno spojrzenie (glimpse), potem wskazanie.

    q [B, D], k [B, N, D], pobrane [B, N] (True = już w koszyku, nie wolno wskazać).
    Zwraca rozkład po szufladach [B, N]; co najmniej jedna szuflada musi być wolna.
    """

    def __init__(self, dim, clip=10.0):
        super().__init__()
        self.spojrzenie = Addytywna(dim)
        self.wskaz = Addytywna(dim, clip)

    @staticmethod
    def rozklad(u, pobrane):
        return torch.where(pobrane, u.new_tensor(float("-inf")), u).softmax(-1)

    def forward(self, q, k, pobrane):
        u, e = self.spojrzenie(q, k)
        g = torch.einsum("bn,bnd->bd", self.rozklad(u, pobrane), e)
        u, _ = self.wskaz(g, k)
        return self.rozklad(u, pobrane)


class Koder(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.poz = nn.Linear(3, dim)       # x, y, z szuflady w metrach
        self.lstm = nn.LSTM(dim, dim, batch_first=True)

    def forward(self, xyz):
        return self.lstm(self.poz(xyz))


class RobotApteczny(nn.Module):
    def __init__(self, dim=16):
        super().__init__()
        self.koder = Koder(dim)
        self.komorka = nn.LSTMCell(dim, dim)
        self.start = nn.Parameter(torch.randn(dim))
        self.wskaznik = Wskaznik(dim)

    def forward(self, xyz, losuj=False):
        h_all, (h, c) = self.koder(xyz)
        h, c = h[0], c[0]
        B, N, _ = xyz.shape
        wejscie = self.start.expand(B, -1)
        pobrane = torch.zeros(B, N, dtype=torch.bool)
        trasa, logp = [], 0.0
        for _ in range(N):
            h, c = self.komorka(wejscie, (h, c))
            p = self.wskaznik(h, h_all, pobrane)
            j = torch.multinomial(p, 1) if losuj else p.argmax(1, keepdim=True)
            logp = logp + p.gather(1, j).log().squeeze(1)
            pobrane = pobrane.scatter(1, j, True)      # nowy tensor, stary zostaje
            wejscie = h_all.gather(1, j[..., None].expand(-1, -1, h_all.size(2))).squeeze(1)
            trasa.append(j)
        return torch.cat(trasa, 1), logp


def droga(xyz, trasa):
    p = xyz.gather(1, trasa[..., None].expand_as(xyz))
    return (p[:, 1:] - p[:, :-1]).norm(dim=-1).sum(1)


if __name__ == "__main__":
    torch.manual_seed(7)
    xyz = torch.rand(3, 6, 3)
    t, lp = RobotApteczny()(xyz, losuj=True)
    print(t, droga(xyz, t), lp)
