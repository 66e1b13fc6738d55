"""Kreuzaufmerksamkeit: Berichtstext liest Bildausschnitte (Radiologie)."""
import torch
from torch import nn


class Kreuzblick(nn.Module):
    """
    text      : (B, Lt, d)    Fragen
    bild      : (B, Lb, d_b)  Schlüssel und Werte
    sichtbar  : (B, Lb) bool, True = Ausschnitt darf gelesen werden,
                False = Ausschnitt wird vollständig ausgeblendet
                (je Befund bleibt mindestens einer sichtbar)
    Rückgabe  : (B, Lt, d) mit Restverbindung. Jeder Kopf arbeitet auf einem
                eigenen Abschnitt der projizierten Merkmale jedes Ausschnitts.
    """

    def __init__(self, d=24, d_b=20, kopfzahl=3):
        super().__init__()
        self.kopfzahl = kopfzahl
        self.dk = d // kopfzahl
        self.vor_norm = nn.LayerNorm(d)
        self.wq = nn.Linear(d, d)
        self.wk = nn.Linear(d_b, d)
        self.wv = nn.Linear(d_b, d)
        self.wo = nn.Linear(d, d)

    def köpfe(self, t):
        b, l, _ = t.shape
        return t.reshape(b, self.kopfzahl, l, self.dk)

    def forward(self, text, bild, sichtbar=None):
        q = self.köpfe(self.wq(self.vor_norm(text)))
        k = self.köpfe(self.wk(bild))
        v = self.köpfe(self.wv(bild))
        punkte = q @ k.transpose(-1, -2) * self.dk ** -0.5
        if sichtbar is not None:
            punkte = punkte + sichtbar[:, None, None, :]
        gewichte = torch.softmax(punkte, dim=-1)
        gelesen = (gewichte @ v).transpose(1, 2).flatten(2)
        return text + self.wo(gelesen)
