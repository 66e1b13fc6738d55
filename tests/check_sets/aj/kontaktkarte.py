"""
Masterarbeit: Vorhersage von Kontaktkarten kleiner Proteine
Modul: Selbstaufmerksamkeit und Netz

Konventionen
    x         [Stapel, Länge, Breite]
    fuellung  [Stapel, Länge] bool, True = Füllzeichen am Ende; auf Füllzeichen darf kein
              Rest schauen (Spalten der Gewichtsmatrix sind dort null)
"""
import math

import torch
from torch import nn

AMINO = "ACDEFGHIKLMNPQRSTVWY-"


class Selbstaufmerksamkeit(nn.Module):
    """softmax(Q K^T / sqrt(d_kopf)) V je Kopf, danach Köpfe nebeneinander und W_o"""

    def __init__(self, breite, koepfe, ausfall=0.1):
        super().__init__()
        if breite % koepfe != 0:
            raise ValueError("Breite nicht durch Anzahl der Köpfe teilbar")
        self.breite = breite
        self.koepfe = koepfe
        self.d_kopf = breite // koepfe
        self.W_q = nn.Linear(breite, breite)
        self.W_k = nn.Linear(breite, breite)
        self.W_v = nn.Linear(breite, breite)
        self.W_o = nn.Linear(breite, breite)
        self.ausfall = nn.Dropout(ausfall)

    def teile(self, t):
        stapel, laenge, _ = t.shape
        return t.view(stapel, laenge, self.koepfe, self.d_kopf).permute(0, 2, 1, 3)

    def forward(self, x, fuellung=None):
        stapel, laenge, _ = x.shape
        q = self.teile(self.W_q(x))
        k = self.teile(self.W_k(x))
        v = self.teile(self.W_v(x))

        punkte = torch.matmul(q, k.transpose(2, 3)) / math.sqrt(self.breite)
        if fuellung is not None:
            punkte = punkte.masked_fill(fuellung.unsqueeze(1).unsqueeze(3), -1e9)
        gewichte = torch.softmax(punkte, dim=3)
        kontext = torch.matmul(self.ausfall(gewichte), v)
        kontext = kontext.reshape(stapel, laenge, self.breite)
        return self.W_o(kontext), gewichte


class Schicht(nn.Module):
    def __init__(self, breite, koepfe, ausfall=0.1):
        super().__init__()
        self.sa = Selbstaufmerksamkeit(breite, koepfe, ausfall)
        self.n1 = nn.LayerNorm(breite)
        self.n2 = nn.LayerNorm(breite)
        self.ff = nn.Sequential(nn.Linear(breite, 4 * breite), nn.GELU(), nn.Linear(4 * breite, breite))

    def forward(self, x, fuellung):
        a, g = self.sa(self.n1(x), fuellung)
        x = x + a
        return x + self.ff(self.n2(x)), g


class Kontaktnetz(nn.Module):
    """Kontaktwahrscheinlichkeit aus den symmetrisierten Gewichten aller Schichten (APC-korrigiert)"""

    def __init__(self, breite=96, koepfe=6, schichten=4, max_laenge=256):
        super().__init__()
        self.einbettung = nn.Embedding(len(AMINO), breite, padding_idx=len(AMINO) - 1)
        self.ort = nn.Embedding(max_laenge, breite)
        self.schichten = nn.ModuleList([Schicht(breite, koepfe) for _ in range(schichten)])
        self.kopf = nn.Linear(koepfe * schichten, 1)

    @staticmethod
    def apc(m):
        zeile = m.sum(-1, keepdim=True)
        spalte = m.sum(-2, keepdim=True)
        return m - zeile * spalte / m.sum((-1, -2), keepdim=True).clamp(min=1e-9)

    def forward(self, folge):
        fuellung = folge == len(AMINO) - 1
        ort = torch.arange(folge.size(1), device=folge.device)
        x = self.einbettung(folge) + self.ort(ort)
        karten = []
        for s in self.schichten:
            x, g = s(x, fuellung)
            karten.append(g)
        karten = torch.cat(karten, 1)
        karten = self.apc(karten + karten.transpose(2, 3))
        return self.kopf(karten.permute(0, 2, 3, 1)).squeeze(-1)


def praezision_bei_l(logits, kontakte, laenge, abstand=6):
    """Anteil der echten Kontakte unter den besten L Paaren mit |i-j| >= abstand"""
    i, j = torch.triu_indices(laenge, laenge, abstand)
    beste = logits[i, j].topk(min(laenge, len(i))).indices
    return kontakte[i, j][beste].float().mean().item()


if __name__ == "__main__":
    netz = Kontaktnetz().eval()
    folge = torch.randint(0, 20, (2, 50))
    folge[1, 40:] = 20
    print(netz(folge).shape)
