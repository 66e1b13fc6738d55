# Blok uwagi dla U-Neta (model dyfuzyjny). Wszystko w układzie B, C, H, W.
import torch
import torch.nn as nn


class UwagaPikseli(nn.Module):
    def __init__(self, kanaly, grupy=8):
        super().__init__()
        self.norma = nn.GroupNorm(grupy, kanaly)
        self.q = nn.Conv2d(kanaly, kanaly, 1)
        self.k = nn.Conv2d(kanaly, kanaly, 1)
        self.v = nn.Conv2d(kanaly, kanaly, 1)
        self.wyjscie = nn.Conv2d(kanaly, kanaly, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norma(x)
        q = self.q(y).flatten(2)                    # b c n
        k = self.k(y).flatten(2)
        v = self.v(y).flatten(2)
        # macierz transponowana: wiersze to klucze, kolumny to zapytania,
        # dlatego normalizujemy po wymiarze 1 i mnożymy v @ a
        a = torch.bmm(k.transpose(1, 2), q) * c ** -0.5
        a = a.softmax(dim=1)
        y = torch.bmm(v, a).view(b, c, h, w)
        return x + self.wyjscie(y)
