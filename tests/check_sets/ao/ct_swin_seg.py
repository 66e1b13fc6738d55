"""Segmentation du foie sur coupes TDM : un bloc Swin decale, 2D.

Les images sont [B, H, W, C]; H et W doivent etre multiples de la fenetre.
"""
import torch
import torch.nn as nn


def decouper(x, f):
    """[B,H,W,C] -> [B*nF, f*f, C]"""
    B, H, W, C = x.shape
    x = x.view(B, H // f, f, W // f, f, C)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(-1, f * f, C)


def recoller(fen, f, H, W):
    B = fen.shape[0] // ((H // f) * (W // f))
    x = fen.view(B, H // f, W // f, f, f, -1)
    return x.permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, -1)


def masque_decalage(H, W, f, pas):
    """[nF, f*f, f*f] : 0 si meme region, -100 sinon (comme Swin)"""
    region = torch.zeros(1, H, W, 1)
    tranches = (slice(0, -f), slice(-f, -pas), slice(-pas, None))
    n = 0
    for a in tranches:
        for b in tranches:
            region[:, a, b] = n
            n += 1
    r = decouper(region, f).squeeze(-1)
    diff = r[:, None, :] - r[:, :, None]
    return torch.zeros_like(diff).masked_fill(diff != 0, -100.0)


class FenetreAttention(nn.Module):
    def __init__(self, dim, tetes, f):
        super().__init__()
        self.tetes, self.f = tetes, f
        self.echelle = (dim // tetes) ** -0.5
        self.table = nn.Parameter(torch.zeros((2 * f - 1) ** 2, tetes))
        nn.init.trunc_normal_(self.table, std=0.02)
        y, x = torch.meshgrid(torch.arange(f), torch.arange(f), indexing="ij")
        c = torch.stack([y.flatten(), x.flatten()])
        rel = c[:, :, None] - c[:, None, :] + (f - 1)
        self.register_buffer("indice", rel[0] * (2 * f - 1) + rel[1])
        self.qkv = nn.Linear(dim, 3 * dim)
        self.sortie = nn.Linear(dim, dim)

    def forward(self, x, masque=None):
        """x [B*nF, N, C], masque [nF, N, N] additif ou None"""
        Bf, N, C = x.shape
        q, k, v = self.qkv(x).reshape(Bf, N, 3, self.tetes, -1).permute(2, 0, 3, 1, 4)
        s = (q * self.echelle) @ k.transpose(-2, -1)
        biais = self.table[self.indice.view(-1)].view(N, N, -1).permute(2, 0, 1)
        s = s + biais[None]
        if masque is not None:
            nF = masque.shape[0]
            s = s.view(Bf // nF, nF, self.tetes, N, N) + masque[None, :, None]
            s = s.view(Bf, self.tetes, N, N)
        p = s.softmax(-1)
        return self.sortie((p @ v).transpose(1, 2).reshape(Bf, N, C))


class BlocSwin(nn.Module):
    def __init__(self, dim, tetes, f=4, decale=False):
        super().__init__()
        self.f, self.pas = f, f // 2 if decale else 0
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.att = FenetreAttention(dim, tetes, f)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        B, H, W, C = x.shape
        y = self.n1(x)
        m = None
        if self.pas:
            y = torch.roll(y, (-self.pas, -self.pas), (1, 2))
            m = masque_decalage(H, W, self.f, self.pas).to(x)
        y = recoller(self.att(decouper(y, self.f), m), self.f, H, W)
        if self.pas:
            y = torch.roll(y, (self.pas, self.pas), (1, 2))
        x = x + y
        return x + self.mlp(self.n2(x))


class SegFoie(nn.Module):
    def __init__(self, dim=32, classes=2):
        super().__init__()
        self.entree = nn.Conv2d(1, dim, 4, 4)
        self.blocs = nn.Sequential(BlocSwin(dim, 4), BlocSwin(dim, 4, decale=True))
        self.tete = nn.ConvTranspose2d(dim, classes, 4, 4)

    def forward(self, coupe):
        x = self.entree(coupe).permute(0, 2, 3, 1)
        return self.tete(self.blocs(x).permute(0, 3, 1, 2))
