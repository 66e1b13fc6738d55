import torch
from torch import nn


class Kreuzaufmerksamkeit(nn.Module):
    """Mehrköpfige Aufmerksamkeit von Ziel auf Quelle.

    ziel: (B, Lz, D)    quelle: (B, Lq, D)    gueltig: (B, Lq) bool, True = echtes Wort, False = Auffüllung
    Auf Auffüllung wird nicht geachtet.  Ergebnis: (B, Lz, D)
    """

    def __init__(self, breite, koepfe=2):
        super().__init__()
        self.koepfe = koepfe
        self.frage = nn.Linear(breite, breite)
        self.schluessel = nn.Linear(breite, breite)
        self.wert = nn.Linear(breite, breite)
        self.ausgang = nn.Linear(breite, breite)

    def teile(self, t):
        B, L, D = t.shape
        return t.view(B, L, self.koepfe, D // self.koepfe).transpose(1, 2)

    def forward(self, ziel, quelle, gueltig=None):
        f = self.teile(self.frage(ziel))
        s = self.teile(self.schluessel(quelle))
        w = self.teile(self.wert(quelle))
        punkte = f @ s.transpose(-1, -2) / f.size(-1) ** 0.5
        if gueltig is not None:
            punkte = punkte.masked_fill(gueltig[:, None, None, :], -1e9)
        gewichte = punkte.softmax(dim=-1)
        mischung = (gewichte @ w).reshape(ziel.shape)
        return self.ausgang(mischung)
