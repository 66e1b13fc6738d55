# -*- coding: utf-8 -*-
# Ertragsschätzung für Zuckerrüben aus Reihenaufnahmen (Hacke mit Kamera).
# Jede Reihe ist eine Folge von Pflanzen; Fehlstellen werden ausgeblendet.
# Aufmerksamkeit mit gruppierten Schlüsseln und einem Sigmoid-Tor am Ausgang
# (das Tor sieht die Eingabe, nicht das Ergebnis).
import math
import torch
import torch.nn as nn
import torch.nn.functional as F

REIHENABSTAND_CM = 45
PFLANZENABSTAND_CM = 18


def flaeche_qm(anzahl):
    return anzahl * REIHENABSTAND_CM * PFLANZENABSTAND_CM / 1e4


class RMS(nn.Module):
    def __init__(self, breite, eps=1e-6):
        super().__init__()
        self.g = nn.Parameter(torch.ones(breite))
        self.eps = eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.g


class TorAufmerksamkeit(nn.Module):
    """Gruppierte Aufmerksamkeit mit Ausgangstor.

    fehlstelle: (B, L) bool, True = an dieser Stelle steht KEINE Rübe, der
    Schlüssel darf nicht benutzt werden.  Kopf h benutzt die Gruppe
    h // (koepfe // gruppen).  Eine Reihe ganz ohne Rüben liefert vor der
    Ausgangsprojektion Null.
    """

    def __init__(self, breite=64, koepfe=8, gruppen=2):
        super().__init__()
        assert breite % koepfe == 0 and koepfe % gruppen == 0
        self.d = breite // koepfe
        self.koepfe, self.gruppen = koepfe, gruppen
        self.frage = nn.Linear(breite, koepfe * self.d, bias=False)
        self.schluessel_wert = nn.Linear(breite, 2 * gruppen * self.d, bias=False)
        self.tor = nn.Linear(breite, koepfe * self.d)
        self.norm_q, self.norm_k = RMS(self.d), RMS(self.d)
        self.aus = nn.Linear(koepfe * self.d, breite, bias=False)

    def forward(self, x, fehlstelle=None):
        B, L, _ = x.shape
        q = self.norm_q(self.frage(x).view(B, L, self.koepfe, self.d)).transpose(1, 2)
        # gepackt als (Schlüssel|Wert, Gruppe, d)
        k, v = self.schluessel_wert(x).view(B, L, 2, self.gruppen, self.d).unbind(2)
        k = self.norm_k(k).transpose(1, 2)
        v = v.transpose(1, 2)
        n = self.koepfe // self.gruppen
        k = k.repeat_interleave(n, dim=1)
        v = v.repeat_interleave(n, dim=1)

        punkte = torch.matmul(q / math.sqrt(self.d), k.transpose(2, 3))
        if fehlstelle is not None:
            weg = fehlstelle[:, None, None, :]
            punkte = punkte.masked_fill(weg, torch.finfo(punkte.dtype).min)
        p = F.softmax(punkte, dim=-1, dtype=torch.float32).to(v.dtype)
        if fehlstelle is not None:
            p = p.masked_fill(weg, 0.0)      # leere Reihen -> Null
        y = torch.matmul(p, v).transpose(1, 2).reshape(B, L, -1)
        return self.aus(y * torch.sigmoid(self.tor(x)))


class Ertragsmodell(nn.Module):
    def __init__(self, merkmale=11, breite=64):
        super().__init__()
        self.ein = nn.Linear(merkmale, breite)
        self.norm = RMS(breite)
        self.auf = TorAufmerksamkeit(breite)
        self.kopf = nn.Linear(breite, 1)

    def forward(self, pflanzen, fehlstelle):
        h = self.ein(pflanzen)
        h = h + self.auf(self.norm(h), fehlstelle)
        masse = F.softplus(self.kopf(h)).squeeze(-1)
        masse = masse.masked_fill(fehlstelle, 0.0)
        return masse.sum(1) / flaeche_qm(masse.size(1))   # kg je m²


if __name__ == "__main__":
    m = Ertragsmodell()
    luecken = torch.rand(3, 20) < 0.2
    print(m(torch.randn(3, 20, 11), luecken))
