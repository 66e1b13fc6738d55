"""Tourenplanung mit gelernter Politik (nach Bello et al. 2016 und Kool et al. 2019).

Ein Schritt des Dekoders: erst ein "glimpse" mit mehreren Köpfen, dann der Zeiger
auf die nächste Stadt.
"""
import torch
from torch import nn


class Klabuster(nn.Module):
    """Wählt die nächste Stadt.

    rucksack (B, D)        Zustand der Tour
    staedte  (B, N, D)     Einbettungen der N Städte
    war_da   (B, N) bool   True = schon besucht, darf nicht noch einmal gewählt
                           werden; mindestens eine Stadt ist noch offen

    Rückgabe (B, N): Wahrscheinlichkeiten, Summe 1, besuchte Städte genau 0.

    Glimpse: g = W_o [softmax(q_h k_h^T / sqrt(d)) v_h] über die offenen Städte,
    d = D / koepfe.
    Zeiger: u = C * tanh(g . l / sqrt(D)) mit C = 10, dann Softmax über die offenen
    Städte (der Zeiger hat nur einen Kopf der Breite D).
    """

    def __init__(self, D=128, koepfe=8, C=10.0):
        super().__init__()
        self.koepfe, self.C = koepfe, C
        self.frage = nn.Linear(D, D, bias=False)
        self.dreifach = nn.Linear(D, 3 * D, bias=False)   # [k | v | l]
        self.zurueck = nn.Linear(D, D, bias=False)

    def forward(self, rucksack, staedte, war_da):
        B, N, D = staedte.shape
        h, d = self.koepfe, D // self.koepfe
        k, v, l = self.dreifach(staedte).chunk(3, dim=-1)
        q = self.frage(rucksack).view(B, h, d)
        k = k.reshape(B, N, h, d)
        v = v.reshape(B, N, h, d)

        x = torch.einsum("bhd,bnhd->bhn", q, k) / d ** 0.5
        x = x.masked_fill(war_da[:, None, :], float("-inf")).softmax(-1)
        g = self.zurueck(torch.einsum("bhn,bnhd->bhd", x, v).reshape(B, D))

        u = self.C * torch.tanh(torch.einsum("bd,bnd->bn", g, l) / D ** 0.5)
        u = u.masked_fill(war_da, float("-inf"))
        return u.softmax(-1)
