"""Sairaalan hoitokertomusten koodaaja, T5:n mukainen itsehuomio.

Huom: pistetuloa EI jaeta sqrt(d):llä. Kuten T5:ssä, skaala on leivottu kyselyn
alustukseen (std = (leveys * d)^-0.5). Paikkatieto tulee vain suhteellisista
lokeroista, joiden opittu luku lisätään pistemäärään pää kerrallaan.
Kaksisuuntainen, ei kausaalinen.
"""
import math

import torch
from torch import nn


def lokero(ero, lokeroita=32, raja=128):
    """ero = avaimen paikka - kyselyn paikka. Puolet lokeroista kummallekin suunnalle."""
    puoli = lokeroita // 2
    tulos = (ero > 0).long() * puoli
    etaisyys = ero.abs()
    tarkka = puoli // 2
    suuri = tarkka + (
        torch.log(etaisyys.clamp(min=1).float() / tarkka) / math.log(raja / tarkka) * (puoli - tarkka)
    ).long()
    suuri = suuri.clamp(max=puoli - 1)
    return tulos + torch.where(etaisyys < tarkka, etaisyys, suuri)


class HoitoHuomio(nn.Module):
    def __init__(self, leveys=32, paita=4, d=8, lokeroita=32, raja=128):
        super().__init__()
        self.paita, self.d = paita, d
        self.lokeroita, self.raja = lokeroita, raja
        sisus = paita * d
        self.kysely = nn.Linear(leveys, sisus, bias=False)
        self.avain = nn.Linear(leveys, sisus, bias=False)
        self.arvo = nn.Linear(leveys, sisus, bias=False)
        self.ulos = nn.Linear(sisus, leveys, bias=False)
        self.suhde = nn.Embedding(lokeroita, paita)
        nn.init.normal_(self.kysely.weight, std=(leveys * d) ** -0.5)
        nn.init.normal_(self.avain.weight, std=leveys ** -0.5)
        nn.init.normal_(self.arvo.weight, std=leveys ** -0.5)
        nn.init.normal_(self.ulos.weight, std=sisus ** -0.5)

    def siirtyma(self, pituus, laite):
        n = torch.arange(pituus, device=laite)
        ero = n[None, :] - n[:, None]
        return self.suhde(lokero(ero, self.lokeroita, self.raja)).permute(2, 0, 1)   # pää, i, j

    def forward(self, sanat, maski=None):
        """sanat (B, L, leveys); maski (B, L), 1 = sana, 0 = täyte (vähintään yksi sana)."""
        B, L, _ = sanat.shape
        jaa = lambda t: t.view(B, L, self.paita, self.d).transpose(1, 2)
        k, a, v = jaa(self.kysely(sanat)), jaa(self.avain(sanat)), jaa(self.arvo(sanat))
        pisteet = k @ a.transpose(-1, -2) + self.siirtyma(L, sanat.device)
        if maski is not None:
            pisteet = pisteet.masked_fill(maski[:, None, None, :] == 0, float("-inf"))
        paino = torch.softmax(pisteet.float(), -1).type_as(pisteet)
        return self.ulos((paino @ v).transpose(1, 2).reshape(B, L, self.paita * self.d))
