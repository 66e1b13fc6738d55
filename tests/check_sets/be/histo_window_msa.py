"""Fenster-Attention für Histologie-Kacheln (Swin-artig).

Eingabe: Merkmalskarte (B, H, W, C), H und W Vielfache der Fenstergröße.
Bei ``shift > 0`` wird die Karte zyklisch verschoben; Pixel, die nur durch das
Umklappen im selben Fenster liegen, dürfen einander nicht sehen.
"""
import torch
import torch.nn as nn


def zerlege(x, w):
    """(B, H, W, C) -> (B * nF, w*w, C)"""
    b, h, b_, c = x.shape
    x = x.view(b, h // w, w, b_ // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


def setze_zusammen(f, w, h, breite):
    """Umkehrung von ``zerlege``."""
    n_f = (h // w) * (breite // w)
    b = f.shape[0] // n_f
    f = f.view(b, h // w, breite // w, w, w, -1)
    return f.permute(0, 1, 3, 2, 4, 5).reshape(b, h, breite, -1)


def relativer_index(w):
    yx = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
    rel = yx[:, :, None] - yx[:, None, :]
    rel = rel + (w - 1)
    return rel[0] * (2 * w - 1) + rel[1]


def verschiebe_maske(h, breite, w, s):
    regionen = torch.zeros(1, h, breite, 1)
    nr = 0
    for a in (slice(0, -w), slice(-w, -s), slice(-s, None)):
        for b in (slice(0, -w), slice(-w, -s), slice(-s, None)):
            regionen[:, a, b] = nr
            nr += 1
    r = zerlege(regionen, w).squeeze(-1)
    ungleich = r[:, None, :] != r[:, :, None]
    return torch.zeros(ungleich.shape).masked_fill(ungleich, float("-inf"))


class FensterAttention(nn.Module):
    def __init__(self, dim, fenster=4, koepfe=2, shift=0):
        super().__init__()
        assert 0 <= shift < fenster
        self.w, self.n, self.s = fenster, koepfe, shift
        self.skala = (dim // koepfe) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.aus = nn.Linear(dim, dim)
        self.bias_tabelle = nn.Parameter(torch.randn((2 * fenster - 1) ** 2, koepfe) * 0.02)
        self.register_buffer("index", relativer_index(fenster), persistent=False)

    def forward(self, x):
        b, h, breite, c = x.shape
        if self.s:
            x = torch.roll(x, (-self.s, -self.s), dims=(1, 2))
        f = zerlege(x, self.w)
        nf, t, _ = f.shape
        q, k, v = self.qkv(f).view(nf, t, 3, self.n, c // self.n).permute(2, 0, 3, 1, 4)
        a = (q * self.skala) @ k.mT
        a = a + self.bias_tabelle[self.index].permute(2, 0, 1)
        if self.s:
            m = verschiebe_maske(h, breite, self.w, self.s).to(a)
            a = a.view(b, m.shape[0], self.n, t, t) + m[None, :, None]
            a = a.view(nf, self.n, t, t)
        f = (a.softmax(-1) @ v).transpose(1, 2).reshape(nf, t, c)
        x = setze_zusammen(self.aus(f), self.w, h, breite)
        if self.s:
            x = torch.roll(x, (self.s, self.s), dims=(1, 2))
        return x


class KachelBlock(nn.Module):
    def __init__(self, dim, fenster=4, koepfe=2, shift=0):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attn = FensterAttention(dim, fenster, koepfe, shift)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.mlp(x)
