import torch
from torch import nn


class KrokDekodera(nn.Module):
    """Jeden krok dekodera GRU z uwaga addytywna (Bahdanau).

    slowo:    (B,) indeksy poprzednich slow
    stan:     (B, s)
    zrodlo:   (B, T, e)  wyjscia kodera
    dlugosci: (B,)  liczba prawdziwych slow w zrodle, co najmniej 1
    zwraca:   logity (B, slownik), nowy stan (B, s), wagi (B, T)
    """

    def __init__(self, slownik, emb=16, s=24, e=20, u=18):
        super().__init__()
        self.emb = nn.Embedding(slownik, emb)
        self.Ws = nn.Linear(s, u)
        self.We = nn.Linear(e, u, bias=False)
        self.v = nn.Linear(u, 1, bias=False)
        self.gru = nn.GRUCell(emb + e, s)
        self.wyj = nn.Linear(s + e + emb, slownik)

    def forward(self, slowo, stan, zrodlo, dlugosci):
        energia = self.v(torch.tanh(self.Ws(stan)[:, None] + self.We(zrodlo)))[..., 0]
        t = torch.arange(zrodlo.size(1), device=zrodlo.device)
        energia = energia.masked_fill(t[None] >= dlugosci[:, None], float("-inf"))
        wagi = energia.softmax(1)
        kontekst = (wagi[:, :, None] * zrodlo).sum(1)
        x = self.emb(slowo)
        stan = self.gru(torch.cat([x, kontekst], 1), stan)
        return self.wyj(torch.cat([stan, kontekst, x], 1)), stan, wagi
