"""Traduction automatique a la Bahdanau, Cho & Bengio (2015).

e_ij = v^T tanh(W s_{i-1} + U h_j), alpha = softmax sur j, c_i = somme alpha_ij h_j
"""
import torch
import torch.nn as nn


class Regard(nn.Module):
    """etat (B, n), notes (B, J, 2n), longueurs (B,) -> contexte (B, 2n), poids (B, J)"""

    def __init__(self, n, a):
        super().__init__()
        self.W = nn.Linear(n, a, bias=False)
        self.U = nn.Linear(2 * n, a)
        self.v = nn.Linear(a, 1, bias=False)

    def forward(self, etat, notes, longueurs):
        e = self.v(torch.tanh(self.W(etat)[:, None, :] + self.U(notes)))[..., 0]
        vide = torch.arange(notes.shape[1], device=notes.device) >= longueurs[:, None]
        e = e.masked_fill(vide, -torch.inf)
        poids = e.softmax(1)
        return (poids[..., None] * notes).sum(1), poids


class Decodeur(nn.Module):
    def __init__(self, vocabulaire=40, n=16, a=12, plongement=14):
        super().__init__()
        self.E = nn.Embedding(vocabulaire, plongement)
        self.depart = nn.Linear(n, n)
        self.regard = Regard(n, a)
        self.cellule = nn.GRUCell(plongement + 2 * n, n)
        self.sortie = nn.Linear(n + 2 * n + plongement, vocabulaire)
        self.n = n

    def forward(self, notes, longueurs, cible):
        """notes : sorties de l'encodeur bidirectionnel (B, J, 2n), cible (B, I) decalee d'un mot"""
        # s_0 = tanh(W h_1 retrograde)
        s = torch.tanh(self.depart(notes[:, 0, self.n:]))
        mots, regards = [], []
        for i in range(cible.shape[1]):
            y = self.E(cible[:, i])
            c, p = self.regard(s, notes, longueurs)
            s = self.cellule(torch.cat((y, c), -1), s)
            mots.append(self.sortie(torch.cat((s, c, y), -1)))
            regards.append(p)
        return torch.stack(mots, 1), torch.stack(regards, 1)
