"""T5-Encoder-Aufmerksamkeit mit relativen Abstandsklassen."""
import math
import torch
import torch.nn as nn


class Blickpunkt(nn.Module):
    """Bidirektional. x: (B, L, dim), maske: (B, L) 1 = Token, 0 = Füllung.

    Wie in T5 gibt es keine Skalierung der Punktzahlen (sie steckt in der Initialisierung
    von q) und keine Biases; der Abstand j - i geht über Klassen als Bias je Kopf ein.
    """

    def __init__(self, dim=24, koepfe=3, klassen=8, fern=16):
        super().__init__()
        self.koepfe, self.klassen, self.fern = koepfe, klassen, fern
        self.d = dim // koepfe
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.o = nn.Linear(dim, dim, bias=False)
        self.abstand = nn.Embedding(klassen, koepfe)
        nn.init.normal_(self.q.weight, std=(dim * self.d) ** -0.5)
        nn.init.normal_(self.k.weight, std=dim ** -0.5)

    def klasse(self, rel):
        n = self.klassen // 2
        basis = (rel > 0).long() * n
        rel = rel.abs()
        nah = n // 2
        weit = nah + (
            torch.log(rel.float().clamp(min=1) / nah) / math.log(self.fern / nah) * (n - nah)
        ).long()
        return basis + torch.where(rel < nah, rel, weit.clamp(max=n - 1))

    def forward(self, x, maske=None):
        B, L, D = x.shape
        q, k, v = (f(x).view(B, L, self.koepfe, self.d).transpose(1, 2) for f in (self.q, self.k, self.v))
        ort = torch.arange(L, device=x.device)
        bias = self.abstand(self.klasse(ort[None, :] - ort[:, None])).permute(2, 0, 1)
        punkte = q @ k.transpose(2, 3) + bias
        if maske is not None:
            punkte = punkte + (1.0 - maske[:, None, None, :].to(x.dtype)) * -1e9
        gewicht = punkte.softmax(-1)
        return self.o((gewicht @ v).transpose(1, 2).reshape(B, L, D))
