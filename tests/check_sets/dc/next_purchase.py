"""Sequential recommendation, next purchase. Sequences are padded on the left with 0."""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class Blok(nn.Module):
    def __init__(self, n, glowy, p):
        super().__init__()
        self.glowy, self.p = glowy, p
        self.norma1, self.norma2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.wq, self.wk, self.wv, self.wo = (nn.Linear(n, n) for _ in range(4))
        self.siec = nn.Sequential(nn.Linear(n, n), nn.ReLU(), nn.Dropout(p), nn.Linear(n, n))

    def forward(self, x, wolno):
        b, l, n = x.shape
        podziel = lambda t: t.view(b, l, self.glowy, -1).transpose(1, 2)
        z = self.norma1(x)
        q, k, v = podziel(self.wq(z)), podziel(self.wk(z)), podziel(self.wv(z))
        wynik = q @ k.transpose(-2, -1) / math.sqrt(n // self.glowy)
        wynik = wynik.masked_fill(~wolno, torch.finfo(wynik.dtype).min)
        waga = wynik.softmax(-1) * wolno
        waga = F.dropout(waga, self.p, self.training)
        y = (waga @ v).transpose(1, 2).reshape(b, l, n)
        x = x + self.wo(y)
        return x + self.siec(self.norma2(x))


class NextPurchase(nn.Module):
    def __init__(self, items, n=32, glowy=2, warstwy=2, max_len=50, p=0.2):
        super().__init__()
        self.item = nn.Embedding(items + 1, n, padding_idx=0)
        self.miejsce = nn.Embedding(max_len, n)
        self.bloki = nn.ModuleList(Blok(n, glowy, p) for _ in range(warstwy))
        self.koniec = nn.LayerNorm(n)

    def forward(self, ids):
        l = ids.shape[1]
        jest = ids > 0
        wstecz = torch.ones(l, l, dtype=torch.bool, device=ids.device).tril()
        wolno = wstecz & jest[:, None, None, :]
        x = self.item(ids) + self.miejsce.weight[-l:]
        x = x * jest.unsqueeze(-1)
        for b in self.bloki:
            x = b(x, wolno) * jest.unsqueeze(-1)
        return self.koniec(x) @ self.item.weight.T
