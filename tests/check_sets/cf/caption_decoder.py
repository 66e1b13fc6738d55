"""Décodeur de légendes « Show, Attend and Tell » (attention douce).

À chaque pas, l'état caché h_{t-1} interroge les régions de l'image :

    e_i = w . relu(W_a a_i + W_h h_{t-1})
    alpha = softmax_i(e)
    z = sigmoid(f_beta(h_{t-1})) * sum_i alpha_i a_i

On garde le ReLU du code d'origine à la place du tanh de Bahdanau ; la porte
sigmoid module le contexte, élément par élément.
"""
import torch
import torch.nn as nn


class RegionAttention(nn.Module):
    def __init__(self, feat_dim, hid_dim, att_dim):
        super().__init__()
        self.W_a = nn.Linear(feat_dim, att_dim)
        self.W_h = nn.Linear(hid_dim, att_dim)
        self.w = nn.Linear(att_dim, 1)

    def forward(self, feats, h):
        # feats : (lot, régions, feat_dim)   h : (lot, hid_dim)
        e = self.w(torch.relu(self.W_a(feats) + self.W_h(h).unsqueeze(1))).squeeze(2)
        alpha = torch.softmax(e, dim=1)
        contexte = (feats * alpha.unsqueeze(2)).sum(dim=1)
        return contexte, alpha


class CaptionDecoder(nn.Module):
    def __init__(self, vocab=100, feat_dim=32, emb_dim=24, hid_dim=40, att_dim=20):
        super().__init__()
        self.attention = RegionAttention(feat_dim, hid_dim, att_dim)
        self.emb = nn.Embedding(vocab, emb_dim)
        self.cell = nn.LSTMCell(emb_dim + feat_dim, hid_dim)
        self.init_h = nn.Linear(feat_dim, hid_dim)
        self.init_c = nn.Linear(feat_dim, hid_dim)
        self.f_beta = nn.Linear(hid_dim, feat_dim)
        self.sortie = nn.Linear(hid_dim, vocab)

    def etat_initial(self, feats):
        moyenne = feats.mean(dim=1)
        return torch.tanh(self.init_h(moyenne)), torch.tanh(self.init_c(moyenne))

    def pas(self, mot, etat, feats):
        """Un pas : mot (lot,), etat (h, c), feats (lot, régions, feat_dim)."""
        h, c = etat
        z, alpha = self.attention(feats, h)
        z = torch.sigmoid(self.f_beta(h)) * z
        h, c = self.cell(torch.cat([self.emb(mot), z], dim=1), (h, c))
        return self.sortie(h), (h, c), alpha

    def forward(self, feats, mots):
        """Forçage du professeur ; rend logits (lot, T, vocab), alphas (lot, T, régions)."""
        etat = self.etat_initial(feats)
        logits, alphas = [], []
        for t in range(mots.size(1)):
            y, etat, a = self.pas(mots[:, t], etat, feats)
            logits.append(y)
            alphas.append(a)
        return torch.stack(logits, 1), torch.stack(alphas, 1)

    @torch.no_grad()
    def generer(self, feats, debut=1, longueur=12):
        etat = self.etat_initial(feats)
        mot = torch.full((feats.size(0),), debut, dtype=torch.long)
        suite = []
        for _ in range(longueur):
            y, etat, _ = self.pas(mot, etat, feats)
            mot = y.argmax(1)
            suite.append(mot)
        return torch.stack(suite, 1)
