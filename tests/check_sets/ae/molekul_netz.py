import torch
from torch import nn


class AtomAufmerksamkeit(nn.Module):
    """Multi-Head-Attention entlang der Bindungen eines Moleküls.

    atome:     (B, N, F)
    bindungen: (B, N, N) mit 1, wo Atom j für Atom i sichtbar ist (Diagonale immer 1), sonst 0
    Gewichte werden über die sichtbaren Nachbarn normiert.
    """

    def __init__(self, merkmale, koepfe):
        super().__init__()
        self.koepfe = koepfe
        self.breite = merkmale // koepfe
        self.frage = nn.Linear(merkmale, merkmale)
        self.schluessel = nn.Linear(merkmale, merkmale)
        self.wert = nn.Linear(merkmale, merkmale)
        self.ausgang = nn.Linear(merkmale, merkmale)

    def falten(self, t):
        B, N, _ = t.shape
        t = t.view(B, N, self.koepfe, self.breite).permute(0, 2, 1, 3)
        return t.reshape(B * self.koepfe, N, self.breite)

    def forward(self, atome, bindungen):
        B, N, F = atome.shape
        f = self.falten(self.frage(atome))
        s = self.falten(self.schluessel(atome))
        w = self.falten(self.wert(atome))

        punkte = torch.bmm(f, s.mT) * self.breite ** -0.5
        punkte = punkte - punkte.amax(-1, keepdim=True)
        gewicht = punkte.softmax(-1)
        gewicht = gewicht * bindungen.repeat_interleave(self.koepfe, 0)

        neu = torch.bmm(gewicht, w)
        neu = neu.view(self.koepfe, B, N, self.breite)
        neu = neu.permute(1, 2, 0, 3).reshape(B, N, F)
        return self.ausgang(neu)
