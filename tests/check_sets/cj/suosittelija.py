"""Uutissuosittelija: käyttäjän klikkaushistoria + ehdokkaat -> pisteet.

Historia luetaan ristiin ehdokkaista käsin (target attention).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Ristikatse(nn.Module):
    """Skaalattu pistetulo (Vaswani et al.), ehdokkaat kysyvät historialta.

    ehdokkaat (B, M, D), historia (B, N, D), tyhja (B, N) True = täyte.
    Jokaisella käyttäjällä on vähintään yksi klikkaus.
    Pudotus vain koulutuksessa.
    """

    def __init__(self, koko=32, paat=2, pudotus=0.1):
        super().__init__()
        self.paat = paat
        self.osa = koko // paat
        self.skaala = paat ** -0.5
        self.pudotus = pudotus
        self.kysy = nn.Linear(koko, koko)
        self.avain = nn.Linear(koko, koko)
        self.arvo = nn.Linear(koko, koko)
        self.ulos = nn.Linear(koko, koko)

    def jaa(self, x):
        return x.view(x.size(0), x.size(1), self.paat, self.osa).transpose(1, 2)

    def forward(self, ehdokkaat, historia, tyhja):
        q = self.jaa(self.kysy(ehdokkaat))
        k = self.jaa(self.avain(historia))
        v = self.jaa(self.arvo(historia))
        pisteet = torch.matmul(q, k.transpose(-1, -2)) * self.skaala
        pisteet = pisteet.masked_fill(tyhja[:, None, None, :], float("-inf"))
        painot = F.softmax(pisteet, dim=-1)
        painot = F.dropout(painot, self.pudotus)
        y = torch.matmul(painot, v).transpose(1, 2)
        return self.ulos(y.reshape(ehdokkaat.size(0), ehdokkaat.size(1), -1))


class Suosittelija(nn.Module):
    """historia (B, N) ja ehdokkaat (B, M) uutisten numeroita, 0 = täyte; pisteet (B, M)"""

    def __init__(self, uutisia=200, koko=32, paat=2):
        super().__init__()
        self.uutinen = nn.Embedding(uutisia, koko, padding_idx=0)
        self.katse = Ristikatse(koko, paat)
        self.norm = nn.LayerNorm(koko)

    def forward(self, historia, ehdokkaat):
        e = self.uutinen(ehdokkaat)
        kayttaja = self.norm(self.katse(e, self.uutinen(historia), historia == 0))
        return (kayttaja * e).sum(dim=-1)
