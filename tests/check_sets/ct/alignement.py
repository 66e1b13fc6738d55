"""Alignement de Bahdanau pour la transcription de manuscrits.

Tous les tenseurs sont « temps d'abord » : (T, B, ...).
"""
import torch
from torch import nn


class Alignement(nn.Module):
    """
    Score additif : e[t, b] = v . tanh(W s[b] + U h[t, b] + F loc[t, b])

    etat      : (B, d_etat)     état du décodeur
    annots    : (T, B, d_annot) annotations de l'encodeur
    cumul     : (T, B)          somme des poids des pas précédents
    bourrage  : (T, B) bool, True là où l'annotation est du bourrage ;
                il reste toujours au moins une vraie annotation par ligne
    Renvoie le contexte (B, d_annot), les poids (T, B) et le nouveau cumul.
    """

    def __init__(self, d_etat=12, d_annot=16, d_att=10, noyau=5):
        super().__init__()
        self.W = nn.Linear(d_etat, d_att)
        self.U = nn.Linear(d_annot, d_att, bias=False)
        self.conv = nn.Conv1d(1, 3, noyau, padding=noyau // 2, bias=False)
        self.F = nn.Linear(3, d_att, bias=False)
        self.v = nn.Linear(d_att, 1, bias=False)

    def forward(self, etat, annots, cumul=None, bourrage=None):
        T, B, _ = annots.shape
        if cumul is None:
            cumul = annots.new_zeros(T, B)
        loc = self.conv(cumul.t().unsqueeze(1))      # (B, 3, T)
        loc = self.F(loc.permute(2, 0, 1))           # (T, B, d_att)
        somme = self.W(etat).unsqueeze(0) + self.U(annots) + loc
        e = self.v(torch.tanh(somme)).squeeze(-1)    # (T, B)
        if bourrage is not None:
            e = e.masked_fill(bourrage, float("-inf"))
        # le temps est l'axe 0
        poids = torch.softmax(e, dim=0)
        contexte = torch.einsum("tb,tbd->bd", poids, annots)
        return contexte, poids, cumul + poids
