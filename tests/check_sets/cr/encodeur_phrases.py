import math
import torch
import torch.nn as nn


class AttentionPhrase(nn.Module):
    """Auto-attention multi-tetes d'un encodeur de phrases."""

    def __init__(self, taille: int, tetes: int):
        super().__init__()
        self.tetes = tetes
        self.dim_tete = taille // tetes
        self.requete = nn.Linear(taille, taille)
        self.cle = nn.Linear(taille, taille)
        self.valeur = nn.Linear(taille, taille)
        self.sortie = nn.Linear(taille, taille)

    def decouper(self, t):
        lot, mots, _ = t.shape
        return t.view(lot, mots, self.tetes, self.dim_tete).transpose(1, 2)

    def forward(self, phrase, masque_pad):
        """
        phrase : (lot, mots, taille)
        masque_pad : (lot, mots) booleen, True sur les jetons <pad>, qui doivent etre ignores ;
                     chaque phrase a au moins un vrai mot.
        """
        q = self.decouper(self.requete(phrase))
        c = self.decouper(self.cle(phrase))
        v = self.decouper(self.valeur(phrase))
        notes = torch.matmul(q, c.transpose(-1, -2)) / math.sqrt(self.dim_tete)
        masque = masque_pad[:, None, None, :]
        notes = notes.masked_fill(~masque, torch.finfo(notes.dtype).min)
        poids = torch.softmax(notes, dim=-1)
        contexte = torch.matmul(poids, v).transpose(1, 2).contiguous()
        return self.sortie(contexte.view(phrase.shape))
