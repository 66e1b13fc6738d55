"""Décodeur pour la traduction de notices techniques (bureau de traduction).

Un pas de décodage à la Luong, avec « input feeding » : le vecteur attentionnel
du pas précédent est concaténé au mot d'entrée.  Score « general », sans facteur
d'échelle comme dans l'article :  score(h_t, s_i) = h_t' W s_i.

    c_t  = somme_i softmax_i(score) s_i
    h~_t = tanh(W_c [c_t ; h_t])
"""
import torch
from torch import nn


class PasDecodeur(nn.Module):
    def __init__(self, vocab=80, d_mot=12, d=16):
        super().__init__()
        self.d = d
        self.mots = nn.Embedding(vocab, d_mot)
        self.cellule = nn.LSTMCell(d_mot + d, d)
        self.w_general = nn.Parameter(torch.empty(d, d))
        nn.init.xavier_uniform_(self.w_general)
        self.w_c = nn.Linear(2 * d, d, bias=False)
        self.sortie = nn.Linear(d, vocab)

    def etat_initial(self, source, masque):
        n = masque.sum(1, keepdim=True).to(source.dtype)
        h = (source * masque.unsqueeze(-1)).sum(1) / n
        return h, torch.zeros_like(h), torch.zeros_like(h)

    def forward(self, mot, etat, source, masque):
        """mot [B] ; etat = (h, c, h~) ; source [B, S, d] ; masque [B, S] bool, vrai = mot réel.
        Rend (logits, nouvel etat, alpha [B, S])."""
        h, c, att = etat
        h, c = self.cellule(torch.cat([self.mots(mot), att], dim=1), (h, c))
        score = torch.einsum("bd,de,bse->bs", h, self.w_general, source)
        score = score.masked_fill(masque.logical_not(), float("-inf"))
        alpha = torch.softmax(score, dim=1)
        contexte = (alpha.unsqueeze(2) * source).sum(dim=1)
        att = torch.tanh(self.w_c(torch.cat([contexte, h], dim=1)))
        return self.sortie(att), (h, c, att), alpha

    @torch.no_grad()
    def traduire(self, source, masque, debut=1, longueur=10):
        mot = torch.full((source.size(0),), debut, dtype=torch.long)
        etat, mots = self.etat_initial(source, masque), []
        for _ in range(longueur):
            logits, etat, _ = self(mot, etat, source, masque)
            mot = logits.argmax(1)
            mots.append(mot)
        return torch.stack(mots, 1)
