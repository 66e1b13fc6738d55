"""Detekcja fali P w zapisie trójskładowym. Projekt zaliczeniowy, sieć wzorowana na EQTransformer."""
import math

import torch
import torch.nn as nn


class Uwaga(nn.Module):
    """Wielogłowa samouwaga po próbkach (bez maski, patrzymy w obie strony).

    wejście i wyjście: (B, T, szer)
    """

    def __init__(self, szer=24, glowy=3):
        super().__init__()
        self.glowy = glowy
        self.na_glowe = szer // glowy
        self.pyt = nn.Linear(szer, szer)
        self.klu = nn.Linear(szer, szer)
        self.war = nn.Linear(szer, szer)
        self.wyj = nn.Linear(szer, szer)

    def rozdziel(self, x):
        b, t, _ = x.shape
        return x.view(b, t, self.glowy, self.na_glowe).transpose(1, 2)

    def forward(self, x):
        b, t, szer = x.shape
        p, k, w = self.rozdziel(self.pyt(x)), self.rozdziel(self.klu(x)), self.rozdziel(self.war(x))
        podob = torch.matmul(p, k.transpose(-2, -1)) / math.sqrt(self.na_glowe)
        wagi = torch.softmax(podob, dim=-1)
        # sklejamy głowy z powrotem w jeden wektor na próbkę
        razem = torch.matmul(wagi, w).reshape(b, t, szer)
        return self.wyj(razem)


class Detektor(nn.Module):
    """(B, 3, N) przyspieszenia -> (B, N // 4) prawdopodobieństwo fali P"""

    def __init__(self, szer=24, glowy=3, warstwy=2):
        super().__init__()
        self.start = nn.Sequential(
            nn.Conv1d(3, szer, 5, stride=2, padding=2),
            nn.ReLU(),
            nn.Conv1d(szer, szer, 5, stride=2, padding=2),
            nn.ReLU(),
        )
        self.uwagi = nn.ModuleList([Uwaga(szer, glowy) for _ in range(warstwy)])
        self.normy = nn.ModuleList([nn.LayerNorm(szer) for _ in range(warstwy)])
        self.glowica = nn.Linear(szer, 1)

    def forward(self, fala):
        x = self.start(fala).transpose(1, 2)
        for u, n in zip(self.uwagi, self.normy):
            x = x + u(n(x))
        return torch.sigmoid(self.glowica(x)).squeeze(-1)
