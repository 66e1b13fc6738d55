"""Verschobene Fenster-Attention (Swin), Eingabe [B, H, W, C], Ausgabe gleich.

H und W muessen Vielfache von `f` sein. Mit `s > 0` wird das Bild zyklisch um s
verschoben; Pixel, die nur durch das Verschieben Nachbarn wurden, sehen sich nicht.
"""
import torch
import torch.nn as nn


def in_fenster(x, f):
    b, h, w, c = x.shape
    x = x.reshape(b, h // f, f, w // f, f, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, f * f, c)


def aus_fenstern(x, f, h, w):
    c = x.shape[-1]
    x = x.reshape(-1, h // f, w // f, f, f, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, h, w, c)


class FensterAttn(nn.Module):
    def __init__(self, c=24, koepfe=3, f=4, s=2):
        super().__init__()
        self.n, self.f, self.s = koepfe, f, s
        self.qkv = nn.Linear(c, 3 * c)
        self.aus = nn.Linear(c, c)
        # Tabelle: eine Zeile je (dy, dx) in [-(f-1), f-1]^2
        self.tab = nn.Parameter(torch.randn((2 * f - 1) ** 2, koepfe) * 0.02)
        p = torch.cartesian_prod(torch.arange(f), torch.arange(f))
        d = p[:, None] - p[None] + f - 1
        self.register_buffer("idx", d[..., 0] * (2 * f - 1) + d[..., 1], persistent=False)

    def region(self, h, w, dev):
        def zone(n):
            t = torch.zeros(n, dtype=torch.long, device=dev)
            t[n - self.f:] = 1
            t[n - self.s:] = 2
            return t
        r = zone(h)[:, None] * 3 + zone(w)[None]
        r = in_fenster(r[None, ..., None], self.f).squeeze(-1)
        return r[:, :, None] == r[:, None, :]          # [nF, f*f, f*f], True = darf sehen

    def forward(self, x):
        b, h, w, c = x.shape
        f, s, n = self.f, self.s, self.n
        if s:
            x = x.roll((-s, -s), (1, 2))
        y = in_fenster(x, f)
        q, k, v = self.qkv(y).reshape(-1, f * f, 3, n, c // n).permute(2, 0, 3, 1, 4)
        a = (q * (c // n) ** -0.5) @ k.mT + self.tab[self.idx].permute(2, 0, 1)
        if s:
            m = self.region(h, w, x.device)
            a = a.unflatten(0, (b, -1)).masked_fill(~m[None, :, None], float("-inf")).flatten(0, 1)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(-1, f * f, c)
        y = aus_fenstern(self.aus(y), f, h, w)
        return y.roll((s, s), (1, 2)) if s else y
