# Kodierer des Übersetzers
from types import SimpleNamespace

import torch
from torch import nn


EINSTELLUNGEN = SimpleNamespace(breite=16, koepfe=4, innen=32, rate=0.1)


class KodiererSchicht(nn.Module):
    """Eine Schicht des Kodierers (Vaswani et al. 2017, Norm nach der Summe).

    eingabe: (Stapel, Länge, breite)
    laengen: (Stapel,), wie viele Wörter jeder Satz hat; was danach kommt, wird nicht beachtet
    """

    def __init__(self, einst=EINSTELLUNGEN):
        super().__init__()
        b = einst.breite
        self.koepfe = einst.koepfe
        self.frage, self.schluessel, self.wert, self.ausgang = (nn.Linear(b, b) for _ in range(4))
        self.norm1, self.norm2 = nn.LayerNorm(b), nn.LayerNorm(b)
        self.netz = nn.Sequential(nn.Linear(b, einst.innen), nn.ReLU(), nn.Linear(einst.innen, b))
        self.ausfall = nn.Dropout(einst.rate)

    def aufteilen(self, x):
        stapel, laenge, breite = x.shape
        return x.view(stapel, laenge, self.koepfe, breite // self.koepfe).transpose(1, 2)

    def forward(self, eingabe, laengen):
        f, s, w = map(self.aufteilen, (self.frage(eingabe), self.schluessel(eingabe), self.wert(eingabe)))
        punkte = f @ s.transpose(2, 3) / f.shape[-1] ** 0.5
        leer = torch.arange(eingabe.shape[1]) >= laengen.unsqueeze(1)
        punkte = punkte.masked_fill(leer[:, None, None], torch.finfo(punkte.dtype).min)
        gewichte = self.ausfall(punkte.softmax(-1))
        gemischt = (gewichte @ w).transpose(1, 2).flatten(2)
        x = self.norm1(eingabe + self.ausfall(self.ausgang(gemischt)))
        return self.norm2(x + self.ausfall(self.netz(x)))
