"""Encodeur de sessions de clics (site de petites annonces)."""
import torch
from torch import nn


class SessionEncoder(nn.Module):
    """clics [B, N, D], vrai [B, N] bool (True = clic, False = remplissage).

    Attention multi-tetes usuelle, softmax(Q K^T / sqrt(taille de tete)) V, puis couche lineaire.
    Le remplissage n'a aucune influence sur les clics ; les poids d'une ligne font 1 sur les vrais
    clics (0 partout si la session est vide).
    """

    def __init__(self, D, tetes):
        super().__init__()
        self.tetes = tetes
        self.taille = D // tetes
        self.lq = nn.Linear(D, D)
        self.lk = nn.Linear(D, D)
        self.lv = nn.Linear(D, D)
        self.fin = nn.Linear(D, D)

    def couper(self, t):
        return t.reshape(t.size(0), t.size(1), self.tetes, self.taille).permute(0, 2, 1, 3)

    def poids(self, q, k, vrai):
        D = self.tetes * self.taille
        s = torch.einsum("bhid,bhjd->bhij", q, k) / D ** 0.5
        p = torch.softmax(s, dim=-1)
        return p * vrai[:, None, None, :]

    def forward(self, clics, vrai):
        q = self.couper(self.lq(clics))
        k = self.couper(self.lk(clics))
        v = self.couper(self.lv(clics))
        p = self.poids(q, k, vrai)
        y = torch.einsum("bhij,bhjd->bihd", p, v)
        return self.fin(y.reshape(clics.shape)), p
