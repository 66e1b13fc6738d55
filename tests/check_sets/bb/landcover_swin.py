"""Klassifikation von Sentinel-2-Kacheln: verschobene Fenster (Swin).

Eingabe immer (B, H, W, C); H und W muessen durch die Fenstergroesse teilbar sein.
"""
import torch
import torch.nn as nn


def zerlegen(x, m):
    B, H, W, C = x.shape
    x = x.view(B, H // m, m, W // m, m, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, m * m, C)


def zusammensetzen(f, m, H, W):
    C = f.shape[-1]
    x = f.view(-1, H // m, W // m, m, m, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


def relativer_index(m):
    yx = torch.stack(torch.meshgrid(torch.arange(m), torch.arange(m), indexing="ij")).flatten(1)
    d = (yx[:, :, None] - yx[:, None, :]) + (m - 1)
    return d[0] * (2 * m - 1) + d[1]


class FensterAufmerksamkeit(nn.Module):
    """Aufmerksamkeit in Fenstern m x m, um `versatz` Pixel zyklisch verschoben.

    Pixel, die nur durch das zyklische Verschieben in dasselbe Fenster geraten
    sind, sehen einander nicht.
    """

    def __init__(self, kanaele, koepfe, m=4, versatz=0):
        super().__init__()
        self.m, self.versatz, self.koepfe = m, versatz, koepfe
        self.tabelle = nn.Parameter(torch.zeros((2 * m - 1) ** 2, koepfe))
        nn.init.trunc_normal_(self.tabelle, std=0.02)
        self.register_buffer("index", relativer_index(m), persistent=False)
        self.qkv = nn.Linear(kanaele, 3 * kanaele)
        self.proj = nn.Linear(kanaele, kanaele)

    def gebiete(self, H, W, device):
        karte = torch.zeros(1, H, W, 1, device=device)
        schnitte = (slice(0, -self.m), slice(-self.m, -self.versatz), slice(-self.versatz, None))
        n = 0
        for a in schnitte:
            for b in schnitte:
                karte[:, a, b] = n
                n += 1
        g = zerlegen(karte, self.m).squeeze(-1)
        return g[:, None, :] != g[:, :, None]          # True = gesperrt

    def forward(self, x):
        B, H, W, C = x.shape
        s = self.versatz
        if s:
            x = torch.roll(x, (-s, -s), dims=(1, 2))
        f = zerlegen(x, self.m)
        nW, N = f.shape[0] // B, f.shape[1]
        q, k, v = self.qkv(f).view(-1, N, 3, self.koepfe, C // self.koepfe).permute(2, 0, 3, 1, 4)
        a = (q * (C // self.koepfe) ** -0.5) @ k.transpose(-2, -1)
        a = a + self.tabelle[self.index].permute(2, 0, 1)
        if s:
            sperre = self.gebiete(H, W, x.device)
            a = a.view(B, nW, self.koepfe, N, N)
            a = a.masked_fill(sperre[None, :, None], float("-inf")).view(-1, self.koepfe, N, N)
        a = a.softmax(-1)
        f = self.proj((a @ v).transpose(1, 2).reshape(-1, N, C))
        x = zusammensetzen(f, self.m, H, W)
        return torch.roll(x, (s, s), dims=(1, 2)) if s else x


class SwinPaar(nn.Module):
    def __init__(self, kanaele=32, koepfe=4, m=4):
        super().__init__()
        self.bloecke = nn.ModuleList(FensterAufmerksamkeit(kanaele, koepfe, m, s) for s in (0, m // 2))
        self.normen = nn.ModuleList(nn.LayerNorm(kanaele) for _ in range(2))

    def forward(self, x):
        for n, b in zip(self.normen, self.bloecke):
            x = x + b(n(x))
        return x
