import torch
from torch import nn
import torch.nn.functional as F


class Nachbarschaft(nn.Module):
    """Graph attention (GAT) ueber einer Kantenliste.

    merkmale: (N, ein)
    kanten:   (2, E) long, Zeile 0 = Quelle, Zeile 1 = Ziel. Das Ziel sammelt von
              seinen Quellen ein; doppelte Kanten zaehlen doppelt.
    Rueckgabe: (N, koepfe * aus). Knoten ohne eingehende Kante erhalten null.
    """

    def __init__(self, ein=6, aus=5, koepfe=3, steigung=0.2):
        super().__init__()
        self.koepfe, self.aus, self.steigung = koepfe, aus, steigung
        self.gewicht = nn.Linear(ein, koepfe * aus, bias=False)
        self.a_quelle = nn.Parameter(torch.randn(koepfe, aus))
        self.a_ziel = nn.Parameter(torch.randn(koepfe, aus))

    def forward(self, merkmale, kanten):
        N = merkmale.shape[0]
        quelle, ziel = kanten
        h = self.gewicht(merkmale).view(N, self.koepfe, self.aus)
        sende = (h * self.a_quelle).sum(-1)
        empfange = (h * self.a_ziel).sum(-1)
        e = F.leaky_relu(sende[quelle] + empfange[ziel], self.steigung)     # E, K
        idx = ziel[:, None].expand_as(e)
        gipfel = torch.full((N, self.koepfe), float("-inf"), dtype=e.dtype, device=e.device)
        gipfel = gipfel.scatter_reduce(0, idx, e.detach(), "amax")
        z = (e - gipfel[ziel]).exp()
        summe = torch.zeros(N, self.koepfe, dtype=e.dtype, device=e.device).index_add(0, ziel, z)
        alpha = z / summe[ziel]
        botschaft = alpha[..., None] * h[quelle]
        return torch.zeros_like(h).index_add(0, ziel, botschaft).flatten(1)
