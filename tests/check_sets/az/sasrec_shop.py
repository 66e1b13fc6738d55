"""SASRec für den Onlineshop: nächster Artikel aus dem Klickverlauf.

Artikelnummer 0 ist Füllwert.  Verläufe werden LINKS aufgefüllt, der letzte Klick steht
immer ganz rechts.  Positionen sehen sich selbst und frühere Klicks, niemals Füllwerte.
"""
from dataclasses import asdict, dataclass
import json
import math
import random

import torch
from torch import nn
import torch.nn.functional as F


@dataclass
class SasRecConfig:
    artikel: int = 500
    laenge: int = 20
    breite: int = 32
    koepfe: int = 2
    bloecke: int = 2
    dropout: float = 0.2
    negative: int = 4

    def speichern(self, pfad):
        with open(pfad, "w") as f:
            json.dump(asdict(self), f, indent=2)

    @classmethod
    def laden(cls, pfad):
        with open(pfad) as f:
            return cls(**json.load(f))


class VerlaufsAttention(nn.Module):
    def __init__(self, cfg: SasRecConfig):
        super().__init__()
        self.koepfe = cfg.koepfe
        self.frage = nn.Linear(cfg.breite, cfg.breite)
        self.schluessel = nn.Linear(cfg.breite, cfg.breite)
        self.wert = nn.Linear(cfg.breite, cfg.breite)
        self.dropout = nn.Dropout(cfg.dropout)

    def aufteilen(self, x):
        return x.unflatten(-1, (self.koepfe, -1)).movedim(-2, 1)

    def forward(self, anfrage, verlauf, echt):
        """anfrage, verlauf: (batch, n, breite); echt: (batch, n) bool, True = wirklicher Klick"""
        n = verlauf.size(1)
        q = self.aufteilen(self.frage(anfrage))
        k = self.aufteilen(self.schluessel(verlauf))
        v = self.aufteilen(self.wert(verlauf))
        punkte = torch.einsum("bhid,bhjd->bhij", q, k).div(math.sqrt(q.size(-1)))
        sichtbar = torch.ones(n, n, dtype=torch.bool, device=verlauf.device).tril()
        sichtbar = sichtbar & echt[:, None, None, :]
        punkte = punkte.masked_fill(~sichtbar, torch.finfo(punkte.dtype).min)
        # Zeilen von Füllwerten sehen nichts; sie sollen auch nichts bekommen
        gewichte = punkte.softmax(-1) * sichtbar
        y = self.dropout(gewichte) @ v
        return y.movedim(1, -2).flatten(-2)


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.norm_a, self.norm_f = nn.LayerNorm(cfg.breite), nn.LayerNorm(cfg.breite)
        self.attention = VerlaufsAttention(cfg)
        self.ff = nn.Sequential(
            nn.Linear(cfg.breite, cfg.breite), nn.ReLU(), nn.Dropout(cfg.dropout),
            nn.Linear(cfg.breite, cfg.breite), nn.Dropout(cfg.dropout))

    def forward(self, x, echt):
        # wie im Original wird nur die Anfrage normiert
        q = self.norm_a(x)
        x = q + self.attention(q, x, echt)
        x = self.norm_f(x)
        return (x + self.ff(x)) * echt.unsqueeze(-1)


class SasRec(nn.Module):
    def __init__(self, cfg: SasRecConfig):
        super().__init__()
        self.cfg = cfg
        self.artikel = nn.Embedding(cfg.artikel + 1, cfg.breite, padding_idx=0)
        self.platz = nn.Embedding(cfg.laenge, cfg.breite)
        self.dropout = nn.Dropout(cfg.dropout)
        self.bloecke = nn.ModuleList(Block(cfg) for _ in range(cfg.bloecke))
        self.norm = nn.LayerNorm(cfg.breite)
        nn.init.normal_(self.artikel.weight, std=cfg.breite ** -0.5)
        nn.init.normal_(self.platz.weight, std=0.05)
        with torch.no_grad():
            self.artikel.weight[0].zero_()

    def forward(self, ids):
        echt = ids != 0
        x = self.artikel(ids) * math.sqrt(self.cfg.breite)
        x = self.dropout(x + self.platz.weight[-ids.size(1):]) * echt.unsqueeze(-1)
        for b in self.bloecke:
            x = b(x, echt)
        return self.norm(x)

    def verlust(self, ids, ziel):
        h = self(ids)
        neg = torch.randint(1, self.cfg.artikel + 1, ziel.shape + (self.cfg.negative,), device=ids.device)
        pos = (h * self.artikel(ziel)).sum(-1)
        negs = torch.einsum("bnd,bnkd->bnk", h, self.artikel(neg))
        je = -F.logsigmoid(pos) - F.logsigmoid(-negs).sum(-1)
        m = (ziel != 0).float()
        return (je * m).sum() / m.sum().clamp(min=1)

    @torch.no_grad()
    def empfehlen(self, ids, k=10):
        werte = self(ids)[:, -1] @ self.artikel.weight.T
        werte[:, 0] = float("-inf")
        return werte.topk(k).indices


def auffuellen(verlaeufe, n):
    out = torch.zeros(len(verlaeufe), n, dtype=torch.long)
    for i, v in enumerate(verlaeufe):
        v = v[-n:]
        out[i, n - len(v):] = torch.tensor(v)
    return out


if __name__ == "__main__":
    torch.manual_seed(0)
    random.seed(0)
    cfg = SasRecConfig()
    netz = SasRec(cfg)
    klicks = [[random.randint(1, cfg.artikel) for _ in range(random.randint(3, 30))] for _ in range(8)]
    x, y = auffuellen([v[:-1] for v in klicks], cfg.laenge), auffuellen([v[1:] for v in klicks], cfg.laenge)
    print(netz.verlust(x, y).item(), netz.eval().empfehlen(x).shape)
