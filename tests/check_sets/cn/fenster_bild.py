"""Verschobene Fenster (Swin) für Röntgenbilder.

Das Bild wird zyklisch um `schub` Pixel nach links oben geschoben, in Fenster geteilt,
in jedem Fenster rechnet man normale Mehrkopf-Aufmerksamkeit mit relativer
Lageverschiebung, danach wird alles zurückgelegt.  Pixel, die nur durch das zyklische
Schieben im selben Fenster liegen, sehen einander nicht.
Jeder Pixel der Ausgabe gehört zum gleichen Pixel der Eingabe.
"""
import torch
import torch.nn as nn


def in_fenster(x, f):
    """[B, H, W, C] -> [B * Anzahl, f*f, C]"""
    B, H, W, C = x.shape
    x = x.view(B, H // f, f, W // f, f, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(-1, f * f, C)


def aus_fenster(x, f, B, H, W):
    C = x.shape[-1]
    x = x.view(B, H // f, W // f, f, f, C).permute(0, 1, 3, 2, 4, 5)
    return x.reshape(B, H, W, C)


class FensterAttention(nn.Module):
    """bild [B, H, W, dim] -> [B, H, W, dim], H und W Vielfache von `fenster`."""

    def __init__(self, dim=32, koepfe=4, fenster=4, schub=2):
        super().__init__()
        assert 0 <= schub < fenster
        self.dim, self.koepfe, self.f, self.schub = dim, koepfe, fenster, schub
        self.qkv = nn.Linear(dim, 3 * dim)
        self.aus = nn.Linear(dim, dim)
        self.tabelle = nn.Parameter(0.2 * torch.randn((2 * fenster - 1) ** 2, koepfe))
        p = torch.arange(fenster * fenster)
        zeile, spalte = p // fenster, p % fenster
        rel = (zeile[:, None] - zeile + fenster - 1) * (2 * fenster - 1)
        rel = rel + spalte[:, None] - spalte + fenster - 1
        self.register_buffer("rel", rel)

    def _gebiete(self, H, W, device):
        """Nummer des zusammenhängenden Gebiets nach dem Schieben, [H, W]"""
        def achse(n):
            i = torch.arange(n, device=device)
            return (i >= n - self.f).long() + (i >= n - self.schub).long()
        return achse(H)[:, None] * 3 + achse(W)[None, :]

    def forward(self, bild):
        B, H, W, C = bild.shape
        s, f = self.schub, self.f
        x = torch.roll(bild, shifts=(-s, -s), dims=(1, 2)) if s else bild
        fen = in_fenster(x, f)
        n, t = fen.shape[:2]
        q, k, v = self.qkv(fen).view(n, t, 3, self.koepfe, C // self.koepfe).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-2, -1) * (C // self.koepfe) ** -0.5
        a = a + self.tabelle[self.rel].permute(2, 0, 1)
        if s:
            g = in_fenster(self._gebiete(H, W, bild.device)[None, :, :, None], f)[..., 0]
            fremd = g[:, :, None] != g[:, None, :]                  # [Anzahl, t, t]
            fremd = fremd.repeat(B, 1, 1)[:, None]
            a = a.masked_fill(fremd, float("-inf"))
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(n, t, C)
        y = aus_fenster(self.aus(y), f, B, H, W)
        if s:
            y = torch.roll(y, shifts=(-s, -s), dims=(1, 2))
        return y
