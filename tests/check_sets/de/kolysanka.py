"""Generator kolysanek: maly dekoder jak w "Attention Is All You Need"."""
import math
import torch
import torch.nn as nn


def fale(n, d):
    """Pozycje sinusoidalne z artykulu, (n, d)."""
    poz = torch.arange(n).float()[:, None]
    i = torch.arange(0, d, 2).float()
    kat = poz / 10000 ** (2 * i / d)
    tab = torch.zeros(n, d)
    tab[:, 0::2] = kat.sin()
    tab[:, 1::2] = kat.cos()
    return tab


class Kolysanka(nn.Module):
    """nuty (B, T) -> logity nastepnej nuty (B, T, ile_nut).
    Nuta t zna tylko nuty 0..t."""

    def __init__(self, ile_nut=48, d=32, glowy=4):
        super().__init__()
        self.d, self.glowy = d, glowy
        self.nuta = nn.Embedding(ile_nut, d)
        self.pyt, self.klucz, self.wart, self.wyj = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
        self.koniec = nn.Linear(d, ile_nut)

    def uwaga(self, x):
        # multi-head scaled dot-product
        B, T, _ = x.shape
        q, k, v = (w(x).view(B, T, self.glowy, -1).transpose(1, 2) for w in (self.pyt, self.klucz, self.wart))
        wynik = torch.matmul(q, k.transpose(-1, -2))
        przyszlosc = torch.triu(torch.ones(T, T, device=x.device, dtype=torch.bool), 1)
        wynik.masked_fill(przyszlosc, float("-inf"))
        wagi = torch.softmax(wynik, -1)
        return self.wyj((wagi @ v).transpose(1, 2).reshape(B, T, self.d))

    def forward(self, nuty):
        x = self.nuta(nuty) * math.sqrt(self.d) + fale(nuty.size(1), self.d).to(self.nuta.weight)
        x = self.n1(x + self.uwaga(x))
        x = self.n2(x + self.ff(x))
        return self.koniec(x)
