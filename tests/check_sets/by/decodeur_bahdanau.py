"""Projet d'étudiants (M1, TAL) : traduction français -> anglais, décodeur récurrent.

Attention additive de Bahdanau et al. (2015) : e_ij = v^T tanh(W s_{i-1} + U h_j).
Le contexte est calculé avec l'état *précédent*, puis concaténé au plongement du
mot d'entrée avant la cellule GRU.
"""
import torch
import torch.nn as nn


class AttentionAdditive(nn.Module):
    def __init__(self, dim_etat, dim_encodeur, dim_att):
        super().__init__()
        self.W = nn.Linear(dim_etat, dim_att, bias=False)
        self.U = nn.Linear(dim_encodeur, dim_att)
        self.v = nn.Linear(dim_att, 1, bias=False)

    def forward(self, etat, annotations, longueurs):
        # etat : (lot, dim_etat) ; annotations : (lot, mots, dim_encodeur)
        e = self.v(torch.tanh(self.W(etat).unsqueeze(1) + self.U(annotations))).squeeze(2)
        rang = torch.arange(annotations.size(1), device=e.device)
        hors_phrase = rang.unsqueeze(0) >= longueurs.unsqueeze(1)
        e = e.masked_fill(hors_phrase, float("-inf"))
        alpha = torch.softmax(e, dim=1)
        contexte = torch.bmm(alpha.unsqueeze(1), annotations).squeeze(1)
        return contexte, alpha


class Decodeur(nn.Module):
    """Un pas : (mot, état, annotations, longueurs) -> (logits, nouvel état, alpha)."""

    def __init__(self, vocabulaire=40, dim_mot=12, dim_etat=16, dim_encodeur=20, dim_att=14):
        super().__init__()
        self.plongement = nn.Embedding(vocabulaire, dim_mot)
        self.attention = AttentionAdditive(dim_etat, dim_encodeur, dim_att)
        self.gru = nn.GRUCell(dim_mot + dim_encodeur, dim_etat)
        self.sortie = nn.Linear(dim_etat + dim_encodeur + dim_mot, vocabulaire)

    def forward(self, mot, etat, annotations, longueurs):
        m = self.plongement(mot)
        contexte, alpha = self.attention(etat, annotations, longueurs)
        etat = self.gru(torch.cat([m, contexte], dim=1), etat)
        logits = self.sortie(torch.cat([etat, contexte, m], dim=1))
        return logits, etat, alpha

    @torch.no_grad()
    def traduire(self, debut, etat, annotations, longueurs, pas=10):
        mot, phrase = debut, []
        for _ in range(pas):
            logits, etat, _ = self(mot, etat, annotations, longueurs)
            mot = logits.argmax(dim=1)
            phrase.append(mot)
        return torch.stack(phrase, dim=1)
