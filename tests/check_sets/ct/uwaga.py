"""Blok transformera do przewidywania cen energii."""
import torch
from torch import nn


class Uwaga(nn.Module):
    """Wielogłowicowa skalowana uwaga iloczynowa.

    Każda głowica dzieli iloczyny przez pierwiastek ze swojej szerokości.
    wejscie: (partia, czas, wymiar); przyczynowa: krok widzi siebie i przeszłość.
    """

    def __init__(self, wymiar=24, glowice=4):
        super().__init__()
        if wymiar % glowice:
            raise ValueError("wymiar musi dzielić się przez liczbę głowic")
        self.wymiar = wymiar
        self.glowice = glowice
        self.zapytania = nn.Linear(wymiar, wymiar)
        self.klucze = nn.Linear(wymiar, wymiar)
        self.wartosci = nn.Linear(wymiar, wymiar)
        self.wyjscie = nn.Linear(wymiar, wymiar)
        self.skala = wymiar ** -0.5

    def rozdziel(self, t):
        return t.unflatten(-1, (self.glowice, -1)).movedim(2, 1)

    def forward(self, wejscie):
        czas = wejscie.size(1)
        z = self.rozdziel(self.zapytania(wejscie))
        k = self.rozdziel(self.klucze(wejscie))
        w = self.rozdziel(self.wartosci(wejscie))
        wyniki = torch.matmul(z, k.transpose(-1, -2)) * self.skala
        przyszlosc = torch.triu(torch.ones(czas, czas, dtype=torch.bool, device=z.device), 1)
        wyniki = wyniki.masked_fill(przyszlosc, float("-inf"))
        wagi = wyniki.softmax(-1)
        return self.wyjscie(torch.matmul(wagi, w).movedim(1, 2).flatten(2))


class Blok(nn.Module):
    """Norma, uwaga, norma, sieć; dwa połączenia resztkowe. (partia, czas, wymiar)."""

    def __init__(self, wymiar=24, glowice=4):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(wymiar), nn.LayerNorm(wymiar)
        self.uwaga = Uwaga(wymiar, glowice)
        self.siec = nn.Sequential(nn.Linear(wymiar, 48), nn.SiLU(), nn.Linear(48, wymiar))

    def forward(self, x):
        x = x + self.uwaga(self.n1(x))
        return x + self.siec(self.n2(x))
