"""Fensterblick: small hierarchical image backbone with shifted windows.

Images travel as (B, H, W, C).  Windows are square, H and W have to be
multiples of the window edge.
"""
import torch
from torch import nn


def zerlege(bild, kante):
    """(B, H, W, C) -> (B * nW, kante * kante, C)"""
    B, H, W, C = bild.shape
    bild = bild.view(B, H // kante, kante, W // kante, kante, C)
    return bild.permute(0, 1, 3, 2, 4, 5).reshape(-1, kante * kante, C)


def fuege(fenster, kante, H, W):
    """Inverse of ``zerlege``."""
    C = fenster.shape[-1]
    x = fenster.view(-1, H // kante, W // kante, kante, kante, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, H, W, C)


def schiebe_maske(H, W, kante, versatz):
    """Additive mask (nW, n, n): 0 inside one region, -inf between regions."""
    region = torch.zeros(1, H, W, 1)
    schnitte = (slice(0, -kante), slice(-kante, -versatz), slice(-versatz, None))
    zaehler = 0
    for hs in schnitte:
        for ws in schnitte:
            region[:, hs, ws, :] = zaehler
            zaehler += 1
    r = zerlege(region, kante).squeeze(-1)
    anders = r[:, None, :] != r[:, :, None]
    return torch.zeros(anders.shape).masked_fill(anders, float("-inf"))


class FensterAufmerksamkeit(nn.Module):
    """Self-attention inside each window with a learned relative position bias."""

    def __init__(self, dim, kante, koepfe, qkv_bias=True, attn_drop=0.0):
        super().__init__()
        self.kante, self.koepfe = kante, koepfe
        self.massstab = (dim // koepfe) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3, bias=qkv_bias)
        self.aus = nn.Linear(dim, dim)
        self.drop = nn.Dropout(attn_drop)
        self.tafel = nn.Parameter(torch.zeros((2 * kante - 1) ** 2, koepfe))
        nn.init.trunc_normal_(self.tafel, std=0.02)
        ys, xs = torch.meshgrid(torch.arange(kante), torch.arange(kante), indexing="ij")
        orte = torch.stack([ys.flatten(), xs.flatten()])
        rel = orte[:, :, None] - orte[:, None, :] + (kante - 1)
        self.register_buffer("index", rel[0] * (2 * kante - 1) + rel[1], persistent=False)

    def forward(self, x, maske=None):
        Bw, n, C = x.shape
        q, k, v = self.qkv(x).view(Bw, n, 3, self.koepfe, -1).permute(2, 0, 3, 1, 4)
        a = (q * self.massstab) @ k.transpose(-2, -1)
        a = a + self.tafel[self.index].permute(2, 0, 1)
        if maske is not None:
            nW = maske.shape[0]
            a = a.view(Bw // nW, nW, self.koepfe, n, n) + maske[None, :, None].to(a.dtype)
            a = a.view(Bw, self.koepfe, n, n)
        a = self.drop(a.softmax(dim=-1))
        return self.aus((a @ v).transpose(1, 2).reshape(Bw, n, C))


class FensterBlock(nn.Module):
    def __init__(self, dim, aufloesung, kante, koepfe, versatz=0, ratio=4):
        super().__init__()
        self.kante, self.versatz = kante, versatz
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = FensterAufmerksamkeit(dim, kante, koepfe)
        self.mlp = nn.Sequential(nn.Linear(dim, ratio * dim), nn.GELU(), nn.Linear(ratio * dim, dim))
        m = schiebe_maske(*aufloesung, kante, versatz) if versatz else None
        self.register_buffer("maske", m, persistent=False)

    def forward(self, x):
        _, H, W, _ = x.shape
        y = self.norm1(x)
        if self.versatz:
            y = torch.roll(y, (-self.versatz, -self.versatz), (1, 2))
        y = self.attn(zerlege(y, self.kante), self.maske)
        y = fuege(y, self.kante, H, W)
        if self.versatz:
            y = torch.roll(y, (self.versatz, self.versatz), (1, 2))
        x = x + y
        return x + self.mlp(self.norm2(x))
