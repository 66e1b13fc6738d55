# Blattkrankheiten-Klassifikation: Fenster-Attention (Swin) fuer unser Modell-Zoo.
# Eingabe immer (B, H, W, C), H und W Vielfache der Fenstergroesse.
import torch
from torch import nn


def fenster_teilen(x, w):
    b, h, b2, c = x.shape
    x = x.view(b, h // w, w, b2 // w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, w * w, c)


def fenster_zusammen(f, w, h, b2):
    c = f.shape[-1]
    b = f.shape[0] // ((h // w) * (b2 // w))
    x = f.view(b, h // w, b2 // w, w, w, c)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(b, h, b2, c)


def relativer_index(w):
    k = torch.stack(torch.meshgrid(torch.arange(w), torch.arange(w), indexing="ij")).flatten(1)
    d = (k[:, :, None] - k[:, None, :]).permute(1, 2, 0) + (w - 1)
    return d[..., 0] * (2 * w - 1) + d[..., 1]


def verschiebungs_maske(h, b2, w, s):
    """(nF, w*w, w*w); 0 = erlaubt, -inf = Pixel aus verschiedenen Regionen."""
    m = torch.zeros(1, h, b2, 1)
    n = 0
    for zs in (slice(0, -w), slice(-w, -s), slice(-s, None)):
        for ss in (slice(0, -w), slice(-w, -s), slice(-s, None)):
            m[:, zs, ss] = n
            n += 1
    f = fenster_teilen(m, w).squeeze(-1)
    ungleich = f[:, None, :] != f[:, :, None]
    return torch.zeros(ungleich.shape).masked_fill(ungleich, float("-inf"))


class FensterAttention(nn.Module):
    def __init__(self, dim, koepfe=4, w=4, verschiebung=0):
        super().__init__()
        self.koepfe, self.w, self.s = koepfe, w, verschiebung
        self.skala = (dim // koepfe) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim)
        self.aus = nn.Linear(dim, dim)
        self.tabelle = nn.Parameter(torch.randn((2 * w - 1) ** 2, koepfe) * 0.02)
        self.register_buffer("index", relativer_index(w), persistent=False)

    def forward(self, x):
        B, H, W, C = x.shape
        if self.s:
            x = torch.roll(x, (-self.s, -self.s), dims=(1, 2))
        f = fenster_teilen(x, self.w)
        n, t, _ = f.shape
        q, k, v = self.qkv(f).view(n, t, 3, self.koepfe, -1).permute(2, 0, 3, 1, 4)
        a = (q * self.skala) @ k.mT
        a = a + self.tabelle[self.index].permute(2, 0, 1)
        if self.s:
            m = verschiebungs_maske(H, W, self.w, self.s).to(x)
            # die Fenster eines Bildes liegen hintereinander: (B, nF, ...)
            a = (a.view(B, -1, self.koepfe, t, t) + m[None, :, None]).view(n, self.koepfe, t, t)
        y = (a.softmax(-1) @ v).transpose(1, 2).reshape(n, t, C)
        y = fenster_zusammen(self.aus(y), self.w, H, W)
        if self.s:
            y = torch.roll(y, (self.s, self.s), dims=(1, 2))
        return y
