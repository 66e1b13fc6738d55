"""Selbstaufmerksamkeit über Klangfenster (Spektrogramm-Rahmen).

Gebraucht im Modell für Maschinengeräusche, Halle 3.
"""
import torch
from torch import nn


class Klangaufmerksamkeit(nn.Module):
    """Mehrköpfige Selbstaufmerksamkeit mit Ausgangstor.

    x      : (Stapel, Zeit, merkmale)
    gültig : (Stapel, Zeit) bool, True = echter Rahmen, False = Auffüllung.
             Jede Aufnahme enthält wenigstens einen echten Rahmen.
    Rückgabe: (Stapel, Zeit, merkmale), nicht kausal.

    Das Ergebnis der Köpfe wird vor der letzten Projektion mit einem
    Sigmoid-Tor multipliziert, das aus x berechnet wird.
    """

    def __init__(self, merkmale: int = 32, köpfe: int = 4):
        super().__init__()
        assert merkmale % köpfe == 0
        self.köpfe = köpfe
        self.breite = merkmale // köpfe
        self.frage = nn.Linear(merkmale, merkmale)
        self.schlüssel = nn.Linear(merkmale, merkmale, bias=False)
        self.wert = nn.Linear(merkmale, merkmale)
        self.tor = nn.Linear(merkmale, merkmale)
        self.aus = nn.Linear(merkmale, merkmale)

    def _teile(self, t):
        # (S, Z, M) -> (S, K, Z, B)
        s, z, _ = t.shape
        return t.reshape(s, z, self.köpfe, self.breite).permute(0, 2, 1, 3)

    def forward(self, x, gültig=None):
        s, z, m = x.shape
        # Temperatur schon hier, dann bleibt das Produkt klein
        f = self._teile(self.frage(x)) / self.breite ** 0.5
        k = self._teile(self.schlüssel(x))
        w = self._teile(self.wert(x))
        ähnlich = torch.einsum("skib,skjb->skij", f, k)
        if gültig is not None:
            # additiv; -1e4 passt auch in halbe Genauigkeit
            strafe = (~gültig).to(ähnlich.dtype) * -1e4
            ähnlich = ähnlich + strafe[:, None, None, :]
        gewicht = ähnlich.softmax(-1)
        y = torch.einsum("skij,skjb->sikb", gewicht, w).reshape(s, z, m)
        return self.aus(y * torch.sigmoid(self.tor(x)))
