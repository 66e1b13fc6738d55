"""Decoder for German court decisions, positions by ALiBi (Press, Smith & Lewis 2022).

As in the paper: with n heads (a power of two) the slopes are the geometric sequence that starts at
2^(-8/n) and has that same value as ratio, e.g. 1/2, 1/4, ..., 1/256 for 8 heads.
"""
import torch
from torch import nn


def steigungen(n_koepfe):
    """Slopes, one per head."""
    assert n_koepfe & (n_koepfe - 1) == 0, "power of two only"
    h = torch.arange(n_koepfe, dtype=torch.float32)
    return 2.0 ** (-8.0 * h / n_koepfe)


class AlibiAufmerksamkeit(nn.Module):
    """Causal self-attention, x: [Stapel, Laenge, Breite]."""

    def __init__(self, breite, koepfe, abwurf=0.0):
        super().__init__()
        self.koepfe = koepfe
        self.tiefe = breite // koepfe
        self.qkv = nn.Linear(breite, 3 * breite)
        self.aus = nn.Linear(breite, breite)
        self.abwurf = nn.Dropout(abwurf)
        self.register_buffer("m", steigungen(koepfe), persistent=False)

    def forward(self, x):
        s, l, b = x.shape
        q, k, v = self.qkv(x).split(b, dim=2)
        q = q.view(s, l, self.koepfe, self.tiefe).transpose(1, 2)
        k = k.view(s, l, self.koepfe, self.tiefe).transpose(1, 2)
        v = v.view(s, l, self.koepfe, self.tiefe).transpose(1, 2)
        punkte = q.matmul(k.transpose(2, 3)) / self.tiefe ** 0.5
        ort = torch.arange(l, device=x.device)
        abstand = (ort[:, None] - ort[None, :]).to(punkte.dtype)          # i - j
        punkte = punkte - self.m.view(1, -1, 1, 1) * abstand
        punkte = punkte.masked_fill(abstand < 0, float("-inf"))
        gewichte = self.abwurf(torch.softmax(punkte.float(), dim=-1).to(x.dtype))
        return self.aus(gewichte.matmul(v).transpose(1, 2).reshape(s, l, b))


class Schicht(nn.Module):
    def __init__(self, breite, koepfe):
        super().__init__()
        self.norm1 = nn.LayerNorm(breite)
        self.norm2 = nn.LayerNorm(breite)
        self.aufm = AlibiAufmerksamkeit(breite, koepfe)
        self.netz = nn.Sequential(nn.Linear(breite, 4 * breite), nn.GELU(), nn.Linear(4 * breite, breite))

    def forward(self, x):
        x = x + self.aufm(self.norm1(x))
        return x + self.netz(self.norm2(x))


class UrteilsLM(nn.Module):
    def __init__(self, woerter, breite=512, koepfe=8, schichten=8):
        super().__init__()
        self.einbettung = nn.Embedding(woerter, breite)
        self.schichten = nn.ModuleList([Schicht(breite, koepfe) for _ in range(schichten)])
        self.norm = nn.LayerNorm(breite)
        self.kopf = nn.Linear(breite, woerter, bias=False)
        self.kopf.weight = self.einbettung.weight

    def forward(self, ids):
        x = self.einbettung(ids)
        for sch in self.schichten:
            x = sch(x)
        return self.kopf(self.norm(x))
