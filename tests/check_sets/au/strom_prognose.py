"""Lastprognose (15-Minuten-Werte) mit lokalem, kausalem Attention-Encoder."""
import math

import torch
from torch import nn


def kalender(ts):
    """Unix-Sekunden -> Sinus/Kosinus von Tag und Woche."""
    tag = ts % 86400 / 86400 * 2 * math.pi
    woche = ts % 604800 / 604800 * 2 * math.pi
    return torch.stack([tag.sin(), tag.cos(), woche.sin(), woche.cos()], -1)


class RevIN(nn.Module):
    def forward(self, x):
        self.m = x.mean(1, keepdim=True)
        self.s = x.std(1, keepdim=True) + 1e-5
        return (x - self.m) / self.s

    def zurueck(self, y):
        return y * self.s[:, 0] + self.m[:, 0]


class FensterAttention(nn.Module):
    """Jeder Zeitschritt sieht genau `fenster` Schritte: sich selbst und die fenster - 1 davor."""

    def __init__(self, breite, koepfe, fenster):
        super().__init__()
        self.koepfe, self.fenster = koepfe, fenster
        self.rein = nn.Linear(breite, breite * 3)
        self.raus = nn.Linear(breite, breite)

    def maske(self, n, device):
        i = torch.arange(n, device=device)
        abstand = i[:, None] - i[None, :]
        return (abstand >= 0) & (abstand <= self.fenster)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.rein(x).reshape(B, T, 3, self.koepfe, C // self.koepfe).unbind(2)
        s = torch.einsum("bihc,bjhc->bhij", q, k) / math.sqrt(C // self.koepfe)
        s = s.masked_fill(self.maske(T, x.device).logical_not(), -math.inf)
        y = torch.einsum("bhij,bjhc->bihc", s.softmax(-1), v)
        return self.raus(y.flatten(2))


class Schicht(nn.Module):
    def __init__(self, breite, koepfe, fenster):
        super().__init__()
        self.att = FensterAttention(breite, koepfe, fenster)
        self.n1, self.n2 = nn.LayerNorm(breite), nn.LayerNorm(breite)
        self.mlp = nn.Sequential(nn.Linear(breite, 2 * breite), nn.SiLU(), nn.Linear(2 * breite, breite))

    def forward(self, x):
        x = x + self.att(self.n1(x))
        return x + self.mlp(self.n2(x))


class Lastprognose(nn.Module):
    def __init__(self, breite=48, koepfe=4, fenster=16, tiefe=3, horizont=96, quantile=(0.1, 0.5, 0.9)):
        super().__init__()
        self.revin = RevIN()
        self.ein = nn.Linear(1 + 4, breite)
        self.schichten = nn.ModuleList(Schicht(breite, koepfe, fenster) for _ in range(tiefe))
        self.aus = nn.Linear(breite, horizont * len(quantile))
        self.q = quantile

    def forward(self, last, ts):
        x = self.revin(last.unsqueeze(-1))
        x = self.ein(torch.cat([x, kalender(ts)], -1))
        for s in self.schichten:
            x = s(x)
        y = self.aus(x[:, -1])
        return self.revin.zurueck(y).view(last.shape[0], -1, len(self.q))

    def pinball(self, y, ziel):
        d = ziel.unsqueeze(-1) - y
        q = torch.tensor(self.q, device=y.device)
        return torch.maximum(q * d, (q - 1) * d).mean()
