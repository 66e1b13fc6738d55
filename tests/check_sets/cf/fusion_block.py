"""Blocco di fusione audio + testo.

Sequenza unica: prima i token audio, poi quelli di testo; ``keep`` è vero dove il
token esiste. I token di riempimento non ricevono peso. L'attenzione è
bidirezionale, i punteggi sono divisi per la radice della larghezza di una testa e
i pesi passano per un dropout durante l'addestramento (mai in valutazione).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class FusionAttention(nn.Module):
    def __init__(self, dim=48, heads=6, dropout=0.1):
        super().__init__()
        self.dim = dim
        self.heads = heads
        self.dropout = dropout
        self.scale = heads ** -0.5
        self.q = nn.Linear(dim, dim)
        self.k = nn.Linear(dim, dim)
        self.v = nn.Linear(dim, dim)
        self.o = nn.Linear(dim, dim)

    def teste(self, x):
        b, n, _ = x.shape
        return x.view(b, n, self.heads, self.dim // self.heads).permute(0, 2, 1, 3)

    def forward(self, x, keep):
        # x: (b, n, dim)   keep: (b, n) bool
        if not self.training:
            self.dropout = 0.0
        q, k, v = self.teste(self.q(x)), self.teste(self.k(x)), self.teste(self.v(x))
        punteggi = torch.einsum("bhid,bhjd->bhij", q, k) * self.scale
        punteggi = punteggi * keep[:, None, None, :].to(punteggi.dtype)
        pesi = punteggi.softmax(dim=-1)
        pesi = F.dropout(pesi, p=self.dropout, training=self.training)
        y = torch.einsum("bhij,bhjd->bihd", pesi, v)
        return self.o(y.reshape(x.shape))


class FusionBlock(nn.Module):
    """LayerNorm prima di ogni parte, residuo dopo."""

    def __init__(self, dim=48, heads=6, dropout=0.1, espansione=2):
        super().__init__()
        self.norma_1 = nn.LayerNorm(dim)
        self.attenzione = FusionAttention(dim, heads, dropout)
        self.norma_2 = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(
            nn.Linear(dim, espansione * dim),
            nn.GELU(),
            nn.Linear(espansione * dim, dim),
        )

    def forward(self, x, keep):
        x = x + self.attenzione(self.norma_1(x), keep)
        return x + self.mlp(self.norma_2(x))


def unisci(audio, testo, n_audio, n_testo):
    """Concatena le due modalità e costruisce ``keep`` dalle lunghezze."""
    a = torch.arange(audio.size(1))[None] < n_audio[:, None]
    t = torch.arange(testo.size(1))[None] < n_testo[:, None]
    return torch.cat([audio, testo], dim=1), torch.cat([a, t], dim=1)
