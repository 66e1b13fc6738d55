# -*- coding: utf-8 -*-
"""Décodeur de parole: attention sensible à la position (Chorowski et al. 2015)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AttentionLocale(nn.Module):
    """e_ij = w . tanh(W s_i + V h_j + U f_ij + b), f = conv(poids précédents).

    longueurs: nombre de trames valides de chaque énoncé (>= 1).
    """

    def __init__(self, d_dec, d_enc, d_att=16, filtres=4, noyau=5):
        super().__init__()
        self.W = nn.Linear(d_dec, d_att, bias=False)
        self.V = nn.Linear(d_enc, d_att, bias=True)
        self.U = nn.Linear(filtres, d_att, bias=False)
        self.conv = nn.Conv1d(1, filtres, noyau, padding=noyau // 2, bias=False)
        self.w = nn.Linear(d_att, 1, bias=False)
        self.cles = None
        self.masque = None

    def preparer(self, h, longueurs):
        """À appeler au début de chaque lot: les clés ne dépendent pas du pas."""
        self.cles = self.V(h)
        t = torch.arange(h.size(1), device=h.device)
        self.masque = t[None, :] >= longueurs[:, None]      # vrai = remplissage

    def forward(self, s, h, precedent):
        """s (B, d_dec), h (B, T, d_enc), precedent (B, T) -> contexte, poids"""
        f = self.conv(precedent.unsqueeze(1)).transpose(1, 2)
        e = self.w(torch.tanh(self.W(s).unsqueeze(1) + self.cles + self.U(f))).squeeze(-1)
        e = e.masked_fill(self.masque, float("-inf"))
        a = F.softmax(e, dim=1)        # (B, T): l'axe 1 est celui des trames
        return torch.bmm(a.unsqueeze(1), h).squeeze(1), a


class Decodeur(nn.Module):
    def __init__(self, vocab=30, d_enc=20, d_dec=24):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_dec)
        self.cellule = nn.LSTMCell(d_dec + d_enc, d_dec)
        self.att = AttentionLocale(d_dec, d_enc)
        self.sortie = nn.Linear(d_dec + d_enc, vocab)
        self.d_dec = d_dec

    def forward(self, h, longueurs, cibles):
        B, T, E = h.shape
        self.att.preparer(h, longueurs)
        valide = (~self.att.masque).to(h.dtype)
        a = valide / valide.sum(1, keepdim=True)
        c = h.new_zeros(B, E)
        etat = (h.new_zeros(B, self.d_dec), h.new_zeros(B, self.d_dec))
        logits, cartes = [], []
        for t in range(cibles.size(1)):
            etat = self.cellule(torch.cat([self.emb(cibles[:, t]), c], -1), etat)
            c, a = self.att(etat[0], h, a)
            logits.append(self.sortie(torch.cat([etat[0], c], -1)))
            cartes.append(a)
        return torch.stack(logits, 1), torch.stack(cartes, 1)
