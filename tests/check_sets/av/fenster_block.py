# Verschobene Fenster (Swin) fuer Satellitenkacheln, kanal-letztes Layout [B, H, W, C]
import torch
import torch.nn as nn
import torch.nn.functional as F


def zerlege(x, f):
    """[B,H,W,C] -> [B*nF, f*f, C]"""
    B, H, W, C = x.shape
    x = x.view(B, H // f, f, W // f, f, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, f * f, C)


def fuege(fenster, f, H, W):
    """Umkehrung von zerlege."""
    B = fenster.shape[0] // ((H // f) * (W // f))
    x = fenster.view(B, H // f, W // f, f, f, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


class FensterAchtung(nn.Module):
    def __init__(self, kanaele, f, koepfe):
        super().__init__()
        self.f, self.koepfe = f, koepfe
        self.d = kanaele // koepfe
        self.tabelle = nn.Parameter(torch.randn((2 * f - 1) ** 2, koepfe) * .02)
        yy, xx = torch.meshgrid(torch.arange(f), torch.arange(f), indexing="ij")
        p = torch.stack([yy.flatten(), xx.flatten()])
        rel = p[:, :, None] - p[:, None, :] + (f - 1)
        self.register_buffer("index", rel[0] * (2 * f - 1) + rel[1], persistent=False)
        self.qkv = nn.Linear(kanaele, 3 * kanaele)
        self.aus = nn.Linear(kanaele, kanaele)

    def forward(self, x, sperre=None):
        """sperre: bool [nF, N, N], True = Paar darf sich NICHT sehen."""
        BF, N, C = x.shape
        q, k, v = self.qkv(x).view(BF, N, 3, self.koepfe, self.d).permute(2, 0, 3, 1, 4)
        a = (q * self.d ** -0.5) @ k.mT
        a = a + self.tabelle[self.index].permute(2, 0, 1)
        if sperre is not None:
            nF = sperre.shape[0]
            a = a.view(BF // nF, nF, self.koepfe, N, N)
            a = a.masked_fill(sperre[None, :, None], float("-inf"))
            a = a.view(BF, self.koepfe, N, N)
        y = a.softmax(-1) @ v
        return self.aus(y.transpose(1, 2).reshape(BF, N, C))


class SwinBlock(nn.Module):
    def __init__(self, kanaele, koepfe, f=4, versatz=0):
        super().__init__()
        self.f, self.versatz = f, versatz
        self.n1, self.n2 = nn.LayerNorm(kanaele), nn.LayerNorm(kanaele)
        self.achtung = FensterAchtung(kanaele, f, koepfe)
        self.mlp = nn.Sequential(nn.Linear(kanaele, 4 * kanaele), nn.GELU(), nn.Linear(4 * kanaele, kanaele))

    def regionen(self, H, W, geraet):
        f, s = self.f, self.versatz
        nr = torch.zeros(1, H, W, 1, device=geraet)
        i = 0
        for h in (slice(0, -f), slice(-f, -s), slice(-s, None)):
            for w in (slice(0, -f), slice(-f, -s), slice(-s, None)):
                nr[:, h, w] = i
                i += 1
        r = zerlege(nr, f).squeeze(-1)
        return r[:, :, None] != r[:, None, :]

    def forward(self, x):
        B, H, W, C = x.shape
        y = self.n1(x)
        sperre = None
        if self.versatz:
            y = torch.roll(y, (-self.versatz, -self.versatz), dims=(1, 2))
            sperre = self.regionen(H, W, x.device)
        y = fuege(self.achtung(zerlege(y, self.f), sperre), self.f, H, W)
        if self.versatz:
            y = torch.roll(y, (self.versatz, self.versatz), dims=(1, 2))
        x = x + y
        return x + self.mlp(self.n2(x))
