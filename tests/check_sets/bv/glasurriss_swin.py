"""Rückgrat zur Erkennung von Haarrissen in Keramikglasuren (verschobene Fenster)."""
import torch
import torch.nn as nn

# Bilder kommen als [B, Höhe, Breite, Kanäle]; Höhe und Breite sind Vielfache der Fenstergröße.


def zerlege(x, w):
    B, H, W, C = x.shape
    x = x.view(B, H // w, w, W // w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, C)


def setze_zusammen(f, w, H, W):
    C = f.shape[-1]
    x = f.view(-1, H // w, W // w, w, w, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


def relativer_index(w):
    yx = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
    d = yx[:, :, None] - yx[:, None, :] + (w - 1)
    return d[0] * (2 * w - 1) + d[1]


class FensterAttention(nn.Module):
    """Attention in Fenstern der Kante ``w``; bei ``versatz`` > 0 wird zyklisch verschoben.

    Pixel, die nur durch das zyklische Rollen Nachbarn wurden, sehen einander nicht.
    """

    def __init__(self, kanaele, koepfe, w=4, versatz=0):
        super().__init__()
        self.w, self.versatz, self.koepfe = w, versatz, koepfe
        self.skala = (kanaele // koepfe) ** -0.5
        self.qkv = nn.Linear(kanaele, 3 * kanaele)
        self.proj = nn.Linear(kanaele, kanaele)
        self.tabelle = nn.Parameter(torch.randn((2 * w - 1) ** 2, koepfe) * 0.02)
        self.register_buffer("idx", relativer_index(w), persistent=False)

    def _gebiete(self, H, W, geraet):
        """Nummeriert die neun Gebiete und verbietet den Blick über ihre Grenzen."""
        g = torch.zeros(1, H, W, 1, device=geraet)
        schnitte = (slice(0, -self.w), slice(-self.w, -self.versatz), slice(-self.versatz, None))
        n = 0
        for a in schnitte:
            for b in schnitte:
                g[:, a, b] = n
                n += 1
        f = zerlege(g, self.w).squeeze(-1)
        return f[:, None, :] != f[:, :, None]          # True = verboten, [nF, w*w, w*w]

    def forward(self, x):
        B, H, W, C = x.shape
        if self.versatz:
            x = torch.roll(x, (-self.versatz, -self.versatz), dims=(1, 2))
        f = zerlege(x, self.w)
        n, L, _ = f.shape
        q, k, v = self.qkv(f).view(n, L, 3, self.koepfe, -1).permute(2, 0, 3, 1, 4)
        a = q @ k.transpose(-2, -1) * self.skala
        a = a + self.tabelle[self.idx].permute(2, 0, 1)
        if self.versatz:
            verbot = self._gebiete(H, W, x.device)
            a = a.view(B, -1, self.koepfe, L, L)
            a = a.masked_fill(verbot[None, :, None], float("-inf")).view(n, self.koepfe, L, L)
        y = a.softmax(-1) @ v
        y = self.proj(y.transpose(1, 2).reshape(n, L, C))
        y = setze_zusammen(y, self.w, H, W)
        if self.versatz:
            y = torch.roll(y, (self.versatz, self.versatz), dims=(1, 2))
        return y


class RissStufe(nn.Module):
    def __init__(self, kanaele=24, koepfe=3, w=4):
        super().__init__()
        self.lagen = nn.ModuleList(FensterAttention(kanaele, koepfe, w, s) for s in (0, w // 2))
        self.normen = nn.ModuleList(nn.LayerNorm(kanaele) for _ in self.lagen)
        self.kopf = nn.Linear(kanaele, 1)

    def forward(self, x):
        for norm, lage in zip(self.normen, self.lagen):
            x = x + lage(norm(x))
        return self.kopf(x).squeeze(-1)
