"""Film önerisi: kullanıcının izlediği filmlerden aday filme ilgi puanı."""
import math

import torch
import torch.nn as nn


class IlgiKatmani(nn.Module):
    """Aday filmler (sorgu) izleme geçmişine (anahtar, değer) bakar.

    aday   (B, A, boyut)
    gecmis (B, G, boyut)
    dolgu  (B, G) bool, True = dolgu; dolguya bakılmaz.
    Ölçekli iç çarpım dikkati, her kafa kendi alt uzayında, kafa boyutu = boyut / kafa.
    """

    def __init__(self, boyut=32, kafa=4):
        super().__init__()
        self.boyut, self.kafa = boyut, kafa
        self.sorgu = nn.Linear(boyut, boyut)
        self.anahtar = nn.Linear(boyut, boyut)
        self.deger = nn.Linear(boyut, boyut)
        self.cikis = nn.Linear(boyut, boyut)

    def kafalara(self, t):
        b, n, _ = t.shape
        return t.view(b, n, self.kafa, self.boyut // self.kafa).transpose(1, 2)

    def forward(self, aday, gecmis, dolgu):
        s = self.kafalara(self.sorgu(aday))
        a = self.kafalara(self.anahtar(gecmis))
        d = self.kafalara(self.deger(gecmis))
        puan = torch.matmul(s, a.transpose(-1, -2)) / math.sqrt(self.boyut)
        puan = puan + dolgu[:, None, None, :].to(puan.dtype)
        agirlik = torch.softmax(puan, dim=-1)
        y = torch.matmul(agirlik, d).transpose(1, 2).flatten(2)
        return self.cikis(y)


class Oneri(nn.Module):
    """gecmis (B, G) film no (0 = dolgu, sonda), aday (B, A) film no -> (B, A) puan.
    Geçmişi boş kullanıcı buraya gelmez."""

    def __init__(self, film=200, boyut=32, kafa=4):
        super().__init__()
        self.gomme = nn.Embedding(film, boyut)
        self.ilgi = IlgiKatmani(boyut, kafa)
        self.son = nn.Sequential(nn.Linear(2 * boyut, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, gecmis, aday):
        e = self.gomme(aday)
        y = self.ilgi(e, self.gomme(gecmis), gecmis == 0)
        return self.son(torch.cat([e, y], -1)).squeeze(-1)
