"""Swin-Transformer: (verschobene) Fenster-Aufmerksamkeit.

Eingabe (B, H, W, C), H und W muessen durch die Fenstergroesse teilbar sein.
Bei verschub > 0 wird das Bild zyklisch gerollt; Bildpunkte, die im gerollten Bild
nur zufaellig im selben Fenster liegen, duerfen sich nicht sehen.
"""
import torch
from torch import nn


def zerlege(x, m):
    B, H, W, C = x.shape
    x = x.reshape(B, H // m, m, W // m, m, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, m * m, C)


def fuege(f, m, H, W):
    B = f.shape[0] // ((H // m) * (W // m))
    f = f.reshape(B, H // m, W // m, m, m, -1).permute(0, 1, 3, 2, 4, 5)
    return f.reshape(B, H, W, -1)


class FensterAchtung(nn.Module):
    def __init__(self, breite=24, koepfe=3, m=4, verschub=2):
        super().__init__()
        self.koepfe, self.m, self.verschub = koepfe, m, verschub
        self.qkv = nn.Linear(breite, 3 * breite)
        self.aus = nn.Linear(breite, breite)
        # Tafel der relativen Lagen, ein Wert je Kopf
        self.tafel = nn.Parameter(torch.randn((2 * m - 1) ** 2, koepfe) * 0.5)
        y, x = torch.meshgrid(torch.arange(m), torch.arange(m), indexing="ij")
        y, x = y.flatten(), x.flatten()
        dy = y[:, None] - y[None, :] + m - 1
        dx = x[:, None] - x[None, :] + m - 1
        self.register_buffer("lage", dy * (2 * m - 1) + dx)

    def sperre(self, H, W, geraet):
        """(nF, m*m, m*m), True = gesperrt"""
        m, s = self.m, self.verschub
        gebiet = torch.zeros(1, H, W, 1, device=geraet)
        nr = 0
        for a in (slice(0, -m), slice(-m, -s), slice(-s, None)):
            for b in (slice(0, -m), slice(-m, -s), slice(-s, None)):
                gebiet[:, a, b] = nr
                nr += 1
        g = zerlege(gebiet, m).squeeze(-1)
        return g[:, :, None] != g[:, None, :]

    def forward(self, x):
        B, H, W, C = x.shape
        m, s, k = self.m, self.verschub, self.koepfe
        if s:
            x = x.roll((-s, -s), (1, 2))
        f = zerlege(x, m)
        n = f.shape[1]
        q, kk, v = self.qkv(f).reshape(-1, n, 3, k, C // k).permute(2, 0, 3, 1, 4).unbind(0)
        p = (q @ kk.mT) / (C // k) ** 0.5
        p = p + self.tafel[self.lage].permute(2, 0, 1)
        if s:
            zu = self.sperre(H, W, x.device)
            p = p.view(B, -1, k, n, n).masked_fill(zu[None, :, None], float("-inf")).view(-1, k, n, n)
        f = (p.softmax(-1) @ v).transpose(1, 2).reshape(-1, n, C)
        y = fuege(self.aus(f), m, H, W)
        if s:
            y = y.roll((s, s), (1, 2))
        return y
