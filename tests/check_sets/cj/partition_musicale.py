"""Génération de partitions (format ABC). Le modèle écrit plusieurs notes par pas pour aller plus vite."""
import torch
import torch.nn as nn


class AttentionCache(nn.Module):
    """Attention causale avec mémoire.

    x: (B, n, dim), les n notes nouvelles.
    memoire: None ou (cles, valeurs), chacune (B, tetes, p, d), les p notes déjà lues.
    Une note voit toutes les notes précédentes, mémoire comprise, et elle-même.
    """

    def __init__(self, dim=32, tetes=4):
        super().__init__()
        self.tetes = tetes
        self.d = dim // tetes
        self.proj = nn.Linear(dim, 3 * dim)
        self.sortie = nn.Linear(dim, dim)

    def forward(self, x, memoire=None):
        B, n, dim = x.shape
        q, c, v = self.proj(x).view(B, n, 3, self.tetes, self.d).permute(2, 0, 3, 1, 4)
        if memoire is not None:
            c = torch.cat([memoire[0], c], dim=2)
            v = torch.cat([memoire[1], v], dim=2)
        total = c.size(2)
        score = q @ c.transpose(-1, -2) / self.d**0.5
        vu = torch.tril(torch.ones(n, total, dtype=torch.bool, device=x.device))
        score = score.masked_fill(~vu, float("-inf"))
        y = score.softmax(dim=-1) @ v
        y = y.transpose(1, 2).reshape(B, n, dim)
        return self.sortie(y), (c, v)


class Compositeur(nn.Module):
    def __init__(self, notes=60, dim=32, tetes=4, couches=2, longueur=128):
        super().__init__()
        self.notes = nn.Embedding(notes, dim)
        self.places = nn.Embedding(longueur, dim)
        self.att = nn.ModuleList([AttentionCache(dim, tetes) for _ in range(couches)])
        self.nrm = nn.ModuleList([nn.LayerNorm(dim) for _ in range(couches)])
        self.fin = nn.Linear(dim, notes)

    def forward(self, notes, memoires=None):
        """notes (B, n) -> logits (B, n, vocabulaire), nouvelles mémoires"""
        deja = 0 if memoires is None else memoires[0][0].size(2)
        places = torch.arange(deja, deja + notes.size(1), device=notes.device)
        x = self.notes(notes) + self.places(places)
        nouvelles = []
        for i, (a, nrm) in enumerate(zip(self.att, self.nrm)):
            y, m = a(nrm(x), None if memoires is None else memoires[i])
            x = x + y
            nouvelles.append(m)
        return self.fin(x), nouvelles
