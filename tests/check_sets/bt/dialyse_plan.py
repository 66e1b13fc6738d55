"""Ultrafiltrationsplanung fuer Haemodialyse-Patienten (Zentrum Nord, interne Studie).

Ein Patient kommt drei Mal pro Woche. Fuer die naechste Sitzung wird das UF-Volumen aus
allen *bisherigen* Sitzungen geschaetzt; die laufende Sitzung selbst zaehlt mit.
"""
from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass(frozen=True)
class PlanKonfig:
    merkmale: int = 11        # Gewicht, Blutdruck, Na+, ...
    breite: int = 32
    koepfe: int = 4
    max_uf_liter: float = 4.5

    @property
    def kopfbreite(self) -> int:
        return self.breite // self.koepfe


class MerkmalsNorm(nn.Module):
    """Robuste Skalierung: Median und IQR kommen aus der Kohorte."""

    def __init__(self, n: int):
        super().__init__()
        self.register_buffer("median", torch.zeros(n))
        self.register_buffer("iqr", torch.ones(n))

    def forward(self, x: Tensor) -> Tensor:
        return (x - self.median) / self.iqr.clamp_min(1e-3)


class ZeitAbklingen(nn.Module):
    """Je Kopf eine gelernte Abklingrate (pro Tag); laengst vergangene Sitzungen verlieren Gewicht."""

    def __init__(self, koepfe: int):
        super().__init__()
        self.roh = nn.Parameter(torch.linspace(-4.0, 0.0, koepfe))

    def forward(self, stunden: Tensor) -> Tensor:
        # stunden [B, N], aufsteigend -> Abzug [B, H, N, N], null auf der Diagonalen
        abstand = (stunden[:, :, None] - stunden[:, None, :]) / 24.0
        rate = F.softplus(self.roh).view(1, -1, 1, 1)
        return -rate * abstand.clamp_min(0.0)[:, None]


class Projektion(nn.Module):
    def __init__(self, k: PlanKonfig):
        super().__init__()
        self.k = k
        self.lin = nn.Linear(k.breite, k.breite, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        b, n, _ = x.shape
        return self.lin(x).view(b, n, self.k.koepfe, self.k.kopfbreite).transpose(1, 2)


class SitzungsBlick(nn.Module):
    """Blick auf fruehere Sitzungen.

    x        [B, N, breite]
    stunden  [B, N]   Zeitpunkt der Sitzung (h seit Aufnahme), streng aufsteigend
    gueltig  [B, N]   True = Sitzung hat stattgefunden; ausgefallene Sitzungen werden
                      weder gesehen noch bekommen sie selbst etwas (Nullzeile).
    """

    def __init__(self, k: PlanKonfig):
        super().__init__()
        self.frage, self.schluessel, self.wert = (Projektion(k) for _ in range(3))
        self.abklingen = ZeitAbklingen(k.koepfe)
        self.aus = nn.Linear(k.breite, k.breite, bias=False)
        self.temperatur = math.sqrt(k.kopfbreite)

    def forward(self, x: Tensor, stunden: Tensor, gueltig: Tensor) -> Tensor:
        q, s, w = self.frage(x), self.schluessel(x), self.wert(x)
        punkte = q @ s.mT / self.temperatur + self.abklingen(stunden)
        vergangen = stunden[:, None, :] <= stunden[:, :, None]
        sichtbar = (vergangen & gueltig[:, None, :])[:, None]
        punkte = punkte.masked_fill(~sichtbar, torch.finfo(punkte.dtype).min)
        gewicht = punkte.softmax(-1) * sichtbar      # nur fuer Zeilen ganz ohne Sitzung noetig
        misch = (gewicht @ w).transpose(1, 2).flatten(2)
        return self.aus(misch) * gueltig[..., None]


class UFPlaner(nn.Module):
    def __init__(self, k: PlanKonfig = PlanKonfig()):
        super().__init__()
        self.k = k
        self.norm = MerkmalsNorm(k.merkmale)
        self.ein = nn.Linear(k.merkmale, k.breite)
        self.blick = SitzungsBlick(k)
        self.kopf = nn.Linear(k.breite, 1)

    def forward(self, merkmale: Tensor, stunden: Tensor, gueltig: Tensor) -> Tensor:
        h = self.ein(self.norm(merkmale))
        h = h + self.blick(h, stunden, gueltig)
        return self.k.max_uf_liter * torch.sigmoid(self.kopf(h)).squeeze(-1)


if __name__ == "__main__":
    t = torch.tensor([[0.0, 48.0, 96.0, 168.0]])
    print(UFPlaner()(torch.randn(1, 4, 11), t, torch.tensor([[True, True, False, True]])))
