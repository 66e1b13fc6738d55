"""Fensteraufmerksamkeit für hochaufgelöste Freskoaufnahmen (Swin-artig).

Eingabe und Ausgabe: (B, Hoehe, Breite, Kanaele). Hoehe und Breite müssen durch die
Fenstergröße teilbar sein.  Ist `versatz` > 0, wird das Bild zyklisch verschoben, so
dass die Fenster die alten Fenstergrenzen überlappen; Bildpunkte, die nur durch das
zyklische Verschieben Nachbarn geworden sind, dürfen einander nicht sehen.
"""
import torch
import torch.nn as nn


def in_fenster(x, g):
    b, h, w, c = x.shape
    x = x.view(b, h // g, g, w // g, g, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, g * g, c)


def aus_fenster(f, g, h, w):
    c = f.shape[-1]
    x = f.view(-1, h // g, w // g, g, g, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, w, c)


class FreskoFenster(nn.Module):
    def __init__(self, kanaele=24, koepfe=3, fenster=4, versatz=2):
        super().__init__()
        assert 0 <= versatz < fenster
        self.koepfe, self.fenster, self.versatz = koepfe, fenster, versatz
        self.d = kanaele // koepfe
        self.qkv = nn.Linear(kanaele, 3 * kanaele)
        self.aus = nn.Linear(kanaele, kanaele)
        # eine gelernte Zahl je Kopf und je relativer Lage (dy, dx)
        self.tafel = nn.Parameter(torch.zeros((2 * fenster - 1) ** 2, koepfe))
        nn.init.trunc_normal_(self.tafel, std=0.02)
        self.register_buffer("lage", self._lage(fenster), persistent=False)

    @staticmethod
    def _lage(g):
        yx = torch.stack(torch.meshgrid(torch.arange(g), torch.arange(g), indexing="ij")).flatten(1)
        rel = yx[:, :, None] - yx[:, None, :] + (g - 1)       # 2, g*g, g*g
        return rel[0] * (2 * g - 1) + rel[1]

    def _gebiete(self, h, w, geraet):
        """Nummer des zusammenhängenden Gebiets nach der Verschiebung, (1, h, w, 1)."""
        def streifen(n):
            s = torch.zeros(n, dtype=torch.long, device=geraet)
            s[n - self.fenster:] = 1
            s[n - self.versatz:] = 2
            return s
        return (3 * streifen(h)[:, None] + streifen(w)[None, :])[None, :, :, None]

    def forward(self, bild):
        b, h, w, c = bild.shape
        g, s = self.fenster, self.versatz
        if s:
            bild = torch.roll(bild, shifts=(-s, -s), dims=(1, 2))
        f = in_fenster(bild, g)                                  # b*nF, g*g, c
        n = f.shape[0] // b

        q, k, v = self.qkv(f).view(-1, g * g, 3, self.koepfe, self.d).permute(2, 0, 3, 1, 4)
        punkte = (q * self.d ** -0.5) @ k.transpose(-1, -2)
        punkte = punkte + self.tafel[self.lage.view(-1)].view(g * g, g * g, -1).permute(2, 0, 1)
        if s:
            nr = in_fenster(self._gebiete(h, w, bild.device), g).squeeze(-1)   # nF, g*g
            fremd = nr[:, :, None] != nr[:, None, :]                           # True = verboten
            punkte = punkte.view(b, n, self.koepfe, g * g, g * g)
            punkte = punkte.masked_fill(fremd[None, :, None], float("-inf"))
            punkte = punkte.flatten(0, 1)
        p = punkte.softmax(-1)

        y = (p @ v).transpose(1, 2).reshape(-1, g * g, c)
        y = aus_fenster(self.aus(y), g, h, w)
        if s:
            y = torch.roll(y, shifts=(s, s), dims=(1, 2))
        return y
