"""Kurzfrist-Prognose der Netzlast (15-Minuten-Werte)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LokaleSchicht(nn.Module):
    """Kausale Attention mit begrenztem Rueckblick.

    Jeder Zeitschritt sieht genau die letzten `spanne` Werte, sich selbst
    mitgezaehlt (am Anfang der Reihe entsprechend weniger).
    x: (B, T, D) -> (B, T, D)
    """

    def __init__(self, D=24, n=3, spanne=4):
        super().__init__()
        self.n, self.spanne = n, spanne
        self.Q = nn.Linear(D, D, bias=False)
        self.K = nn.Linear(D, D, bias=False)
        self.V = nn.Linear(D, D, bias=False)
        self.O = nn.Linear(D, D)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (P(x).view(B, T, self.n, -1).transpose(1, 2) for P in (self.Q, self.K, self.V))
        t = torch.arange(T, device=x.device)
        zurueck = t.unsqueeze(1) - t.unsqueeze(0)
        sichtbar = (zurueck >= 0) & (zurueck <= self.spanne)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=sichtbar)
        return self.O(y.transpose(1, 2).flatten(2))


class Lastprognose(nn.Module):
    """Last, Temperatur und Einstrahlung (B, T, 3) -> naechste Last je Schritt (B, T)."""

    def __init__(self, D=24, spanne=4, tiefe=2):
        super().__init__()
        self.ein = nn.Linear(3, D)
        self.s = nn.ModuleList(LokaleSchicht(D, 3, spanne) for _ in range(tiefe))
        self.ln = nn.ModuleList(nn.LayerNorm(D) for _ in range(tiefe))
        self.aus = nn.Linear(D, 1)

    def forward(self, x):
        h = self.ein(x)
        for s, ln in zip(self.s, self.ln):
            h = h + s(ln(h))
        return self.aus(h)[..., 0]
