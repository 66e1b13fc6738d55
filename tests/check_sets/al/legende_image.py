"""Légendes d'images : « Show, Attend and Tell » (Xu et al. 2015), attention douce.

Le CNN rend une grille [lot, H*W, canaux] ; le LSTM regarde la grille à chaque mot.
"""
import torch
import torch.nn as nn


class AttentionDouce(nn.Module):
    """e = v . relu(U a_i + W h) ; alpha = softmax sur les cases ; z = somme des alpha_i a_i"""

    def __init__(self, dim_image, dim_etat, dim_att):
        super().__init__()
        self.vers_image = nn.Linear(dim_image, dim_att)
        self.vers_etat = nn.Linear(dim_etat, dim_att)
        self.total = nn.Linear(dim_att, 1)

    def forward(self, cases, etat):
        a = self.vers_image(cases)                      # (lot, cases, dim_att)
        h = self.vers_etat(etat)                        # (lot, dim_att)
        e = self.total(torch.relu(a + h.unsqueeze(1))).squeeze(2)
        alpha = torch.softmax(e, dim=1)
        z = (cases * alpha.unsqueeze(2)).sum(dim=1)
        return z, alpha


class DecodeurLegende(nn.Module):
    def __init__(self, mots, dim_image=2048, dim_mot=256, dim_etat=512, dim_att=512, p=0.5):
        super().__init__()
        self.attention = AttentionDouce(dim_image, dim_etat, dim_att)
        self.plongement = nn.Embedding(mots, dim_mot, padding_idx=0)
        self.cellule = nn.LSTMCell(dim_mot + dim_image, dim_etat)
        self.h0 = nn.Linear(dim_image, dim_etat)
        self.c0 = nn.Linear(dim_image, dim_etat)
        self.porte = nn.Linear(dim_etat, dim_image)
        self.sortie = nn.Sequential(nn.Dropout(p), nn.Linear(dim_etat, mots))

    def depart(self, cases):
        m = cases.mean(1)
        return self.h0(m).tanh(), self.c0(m).tanh()

    def forward(self, cases, legendes, longueurs):
        """Entraînement ; légendes triées par longueur décroissante."""
        h, c = self.depart(cases)
        mots = self.plongement(legendes)
        pas = [int(n) - 1 for n in longueurs]
        logits = cases.new_zeros(len(pas), max(pas), self.sortie[1].out_features)
        alphas = cases.new_zeros(len(pas), max(pas), cases.shape[1])
        for t in range(max(pas)):
            actifs = sum(n > t for n in pas)
            z, alpha = self.attention(cases[:actifs], h[:actifs])
            z = torch.sigmoid(self.porte(h[:actifs])) * z
            h, c = self.cellule(torch.cat([mots[:actifs, t], z], 1), (h[:actifs], c[:actifs]))
            logits[:actifs, t] = self.sortie(h)
            alphas[:actifs, t] = alpha
        return logits, alphas


def perte_double_stochastique(alphas, poids=1.0):
    """Pousse chaque case à recevoir une attention totale proche de 1."""
    return poids * ((1.0 - alphas.sum(1)) ** 2).mean()
