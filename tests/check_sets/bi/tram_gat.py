"""
Verspätungsprognose im Straßenbahnnetz mit Graph-Attention (GATv2).

Knoten = Haltestellen, Kanten (von, nach).  Jede Haltestelle mittelt über die Kanten,
die bei ihr ANKOMMEN; die Gewichte je Haltestelle und Kopf summieren sich zu 1.
Haltestellen ohne ankommende Kante behalten nur ihren eigenen Anteil (self.selbst).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


def segment_max(x, seg, n):
    out = x.new_full((n,) + x.shape[1:], float("-inf"))
    return out.scatter_reduce(0, seg.view(-1, *[1] * (x.dim() - 1)).expand_as(x), x, "amax")


def segment_sum(x, seg, n):
    return x.new_zeros((n,) + x.shape[1:]).index_add(0, seg, x)


def segment_softmax(x, seg, n):
    m = segment_max(x, seg, n)
    e = torch.exp(x - m[seg])
    return e / segment_sum(e, seg, n)[seg]


class KantenAufmerksamkeit(nn.Module):
    def __init__(self, ein, aus, koepfe, kantenmerkmale):
        super().__init__()
        self.H, self.D = koepfe, aus // koepfe
        self.links = nn.Linear(ein, aus, bias=False)     # Quelle
        self.rechts = nn.Linear(ein, aus, bias=False)    # Ziel
        self.kante = nn.Linear(kantenmerkmale, aus, bias=False)
        self.a = nn.Parameter(torch.empty(self.H, self.D))
        self.selbst = nn.Linear(ein, aus)
        nn.init.xavier_uniform_(self.a)

    def forward(self, x, kanten, merkmale):
        """x (N, ein); kanten (2, E) = (von, nach); merkmale (E, f)"""
        n = x.size(0)
        von, nach = kanten
        l = self.links(x).view(n, self.H, self.D)
        r = self.rechts(x).view(n, self.H, self.D)
        z = l[von] + r[nach] + self.kante(merkmale).view(-1, self.H, self.D)
        e = (F.leaky_relu(z, 0.2) * self.a).sum(-1)          # (E, H)
        alpha = segment_softmax(e, nach, n)
        y = segment_sum(alpha.unsqueeze(-1) * l[von], nach, n)
        return y.reshape(n, -1) + self.selbst(x)


class Verspaetung(nn.Module):
    def __init__(self, merkmale=10, kantenmerkmale=3, breite=32, koepfe=4):
        super().__init__()
        self.k1 = KantenAufmerksamkeit(merkmale, breite, koepfe, kantenmerkmale)
        self.k2 = KantenAufmerksamkeit(breite, breite, koepfe, kantenmerkmale)
        self.kopf = nn.Linear(breite, 3)     # 10-, 50-, 90-Prozent-Quantil

    def forward(self, x, kanten, f):
        h = F.elu(self.k1(x, kanten, f))
        h = F.elu(self.k2(h, kanten, f))
        return self.kopf(h)


def quantilverlust(p, y, q=(0.1, 0.5, 0.9)):
    d = y[:, None] - p
    q = torch.tensor(q)
    return torch.maximum(q * d, (q - 1) * d).mean()
