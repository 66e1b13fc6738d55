"""Graph-Attention (Velickovic et al. 2018) auf Kantenlisten."""
import torch
from torch import nn
import torch.nn.functional as F


def kanten_softmax(werte, ziel, anzahl):
    """Softmax der Kantenwerte [E, K], gruppiert nach Zielknoten."""
    idx = ziel[:, None].expand_as(werte)
    spitze = torch.full((anzahl, werte.size(1)), float("-inf"), dtype=werte.dtype)
    spitze = spitze.scatter_reduce(0, idx, werte, reduce="amax")
    e = torch.exp(werte - spitze[ziel])
    summe = torch.zeros(anzahl, werte.size(1), dtype=werte.dtype).index_add(0, ziel, e)
    return e / summe[ziel]


class GraphSchicht(nn.Module):
    """knoten [N, F]; kanten [2, E] mit (quelle, ziel): Ziel sammelt von Quelle.

    Schleifen (i, i) werden hinzugefuegt, kanten soll also keine enthalten.
    """

    def __init__(self, ein, aus, koepfe=2, neigung=0.2):
        super().__init__()
        self.W = nn.Linear(ein, aus * koepfe, bias=False)
        self.a_ziel = nn.Parameter(torch.randn(koepfe, aus) * 0.3)
        self.a_quelle = nn.Parameter(torch.randn(koepfe, aus) * 0.3)
        self.koepfe, self.aus, self.neigung = koepfe, aus, neigung

    def forward(self, knoten, kanten):
        n = knoten.size(0)
        schleife = torch.arange(n).expand(2, n)
        quelle, ziel = torch.cat([kanten, schleife], dim=1)
        h = self.W(knoten).view(n, self.koepfe, self.aus)
        wert = (h * self.a_quelle).sum(-1)[quelle] + (h * self.a_ziel).sum(-1)[ziel]
        alpha = kanten_softmax(F.leaky_relu(wert, self.neigung), ziel, n)
        neu = torch.zeros_like(h).index_add(0, ziel, alpha[..., None] * h[quelle])
        return neu.flatten(1)
