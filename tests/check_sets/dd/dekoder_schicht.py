"""Übungsblatt 7: eine Dekoderschicht (Pre-Norm), ganz ohne nn.MultiheadAttention."""
import torch
import torch.nn as nn


class MehrKopf(nn.Module):
    def __init__(self, breite, koepfe):
        super().__init__()
        assert breite % koepfe == 0
        self.koepfe, self.tiefe = koepfe, breite // koepfe
        self.frage = nn.Linear(breite, breite)
        self.schluessel = nn.Linear(breite, breite)
        self.wert = nn.Linear(breite, breite)
        self.zusammen = nn.Linear(breite, breite)

    def teile(self, t):
        return t.unflatten(-1, (self.koepfe, self.tiefe)).transpose(1, 2)

    def forward(self, x, quelle, gesperrt):
        # gesperrt: bool, True = Schlüssel darf nicht gesehen werden, passt auf (B, K, Lx, Lq)
        f, s, w = self.teile(self.frage(x)), self.teile(self.schluessel(quelle)), self.teile(self.wert(quelle))
        punkte = f @ s.mT * self.tiefe ** -0.5
        punkte = punkte.masked_fill(gesperrt, torch.finfo(punkte.dtype).min)
        gewicht = punkte.softmax(-1)
        return self.zusammen((gewicht @ w).transpose(1, 2).flatten(2))


class DekoderSchicht(nn.Module):
    """ziel (B, T, breite), gedaechtnis (B, S, breite), fuell (B, S) True bei Füllzeichen"""

    def __init__(self, breite=32, koepfe=4, innen=64):
        super().__init__()
        self.selbst = MehrKopf(breite, koepfe)
        self.kreuz = MehrKopf(breite, koepfe)
        self.netz = nn.Sequential(nn.Linear(breite, innen), nn.GELU(), nn.Linear(innen, breite))
        self.n1, self.n2, self.n3 = (nn.LayerNorm(breite) for _ in range(3))

    def forward(self, ziel, gedaechtnis, fuell):
        T = ziel.size(1)
        zukunft = torch.ones(T, T, dtype=torch.bool, device=ziel.device).triu(1)
        h = self.n1(ziel)
        ziel = ziel + self.selbst(h, h, zukunft)
        ziel = ziel + self.kreuz(self.n2(ziel), gedaechtnis, fuell[:, None, None, :])
        return ziel + self.netz(self.n3(ziel))
