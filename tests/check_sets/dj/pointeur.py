"""Pointer Networks (Vinyals, Fortunato, Jaitly, 2015), version enseignement forcé.

    u^i_j = v^T tanh(W1 e_j + W2 d_i),     j = 1..n
    p(C_i | C_1..C_{i-1}, P) = softmax(u^i)

Le décodeur n'a pas de vocabulaire : il pointe vers une position de l'entrée. On
interdit de pointer deux fois vers la même ville.
"""
import torch
from torch import nn


class Pointeur(nn.Module):
    """e (B, n, h) états de l'encodeur ; d (B, m, h) états du décodeur ;
    deja (B, m, n) bool, True = ville déjà visitée avant le pas i (interdite),
    il en reste toujours au moins une. Rend log p, (B, m, n)."""

    def __init__(self, h):
        super().__init__()
        self.W1 = nn.Linear(h, h, bias=False)
        self.W2 = nn.Linear(h, h, bias=False)
        self.v = nn.Linear(h, 1, bias=False)

    def forward(self, e, d, deja):
        somme = self.W1(e)[:, None, :, :] + self.W2(d)[:, :, None, :]
        u = self.v(somme).squeeze(-1)
        u = u.masked_fill(deja, float("-inf"))
        return torch.log_softmax(u, dim=-1)


class PtrNet(nn.Module):
    """points (B, n, 2) ; tournee (B, n) long, la permutation à apprendre.
    Rend log p (B, n, n) : ligne i, la distribution du i-ème choix."""

    def __init__(self, h=32):
        super().__init__()
        self.plonge = nn.Linear(2, h)
        self.enc = nn.LSTM(h, h, batch_first=True)
        self.dec = nn.LSTM(h, h, batch_first=True)
        self.go = nn.Parameter(torch.randn(h) * 0.1)
        self.pointe = Pointeur(h)

    def forward(self, points, tournee):
        B, n, _ = points.shape
        x = self.plonge(points)
        e, etat = self.enc(x)
        suivi = x.gather(1, tournee[:, :-1, None].expand(-1, -1, x.size(-1)))
        entree = torch.cat([self.go.expand(B, 1, -1), suivi], dim=1)
        d, _ = self.dec(entree, etat)
        une = nn.functional.one_hot(tournee, n)                 # (B, pas, ville)
        deja = (une.cumsum(1) - une).bool()                     # avant le pas i
        return self.pointe(e, d, deja)
