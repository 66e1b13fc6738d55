"""Cours de traduction automatique, séance 2 : le modèle encodeur-décodeur de base.

Toute la phrase source est résumée dans le dernier état du GRU. C'est ce goulot
d'étranglement que nous supprimerons à la séance 3.
"""
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Goulot(nn.Module):
    """source (B, S), longueurs (B,) >= 1, cible (B, T) -> logits (B, T, vocab).

    source est complétée à droite au-delà de longueurs ; ces mots n'ont aucun effet.
    cible est décalée (elle commence par <debut>) ; logits[:, t] ne dépend que de
    cible[:, :t + 1] et de la source.
    """

    def __init__(self, vocab_source, vocab_cible, e=16, n=24):
        super().__init__()
        self.emb_source = nn.Embedding(vocab_source, e)
        self.emb_cible = nn.Embedding(vocab_cible, e)
        self.encodeur = nn.GRU(e, n, batch_first=True)
        self.decodeur = nn.GRU(e + n, n, batch_first=True)
        self.sortie = nn.Linear(n, vocab_cible)

    def resume(self, source, longueurs):
        paquet = pack_padded_sequence(self.emb_source(source), longueurs.cpu(),
                                      batch_first=True, enforce_sorted=False)
        _, h = self.encodeur(paquet)
        return h                                   # (1, B, n)

    def forward(self, source, longueurs, cible):
        h = self.resume(source, longueurs)
        y = self.emb_cible(cible)
        # le même résumé est montré au décodeur à chaque pas
        fixe = h[0].unsqueeze(1).expand(-1, y.shape[1], -1)
        etats, _ = self.decodeur(torch.cat((y, fixe), dim=-1), h)
        return self.sortie(etats)
