"""Traduction anglais -> français, décodeur récurrent avec attention (Bahdanau, 2015).

Un pas du décodeur :

    e_tj = v^T tanh(W_s s_{t-1} + W_h h_j + b)        pour chaque mot source j
    a_t  = softmax_j(e_tj)   sur les mots source réels seulement
    c_t  = somme_j a_tj h_j
    s_t  = GRU([emb(y_{t-1}); c_t], s_{t-1})

Tailles :
    y_prec  (B,)        indices du mot précédent
    s       (B, n)      état du décodeur
    h       (B, S, 2m)  annotations de l'encodeur bidirectionnel
    long    (B,)        longueurs réelles (au moins 1), le reste est du remplissage
Renvoie (logits (B, V), s_t (B, n), a_t (B, S)); chaque ligne de a_t fait 1.
"""
import torch
from torch import nn


class Attn(nn.Module):
    def __init__(self, n, m2, k):
        super().__init__()
        self.Ws = nn.Linear(n, k, bias=False)
        self.Wh = nn.Linear(m2, k)
        self.v = nn.Linear(k, 1, bias=False)

    def forward(self, s, h, hors):
        # hors: (B, S), vrai là où il n'y a plus de mot
        e = self.v(torch.tanh(self.Ws(s)[:, None] + self.Wh(h)))[..., 0]
        e[hors] = -torch.inf
        return torch.softmax(e, dim=1)


class PasDecodeur(nn.Module):
    def __init__(self, vocab, d_emb, n, m2, k):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_emb)
        self.attn = Attn(n, m2, k)
        self.gru = nn.GRUCell(d_emb + m2, n)
        self.sortie = nn.Linear(n + m2 + d_emb, vocab)

    def forward(self, y_prec, s, h, long):
        rang = torch.arange(h.shape[1], device=h.device)
        hors = rang[None, :] >= long[:, None]
        a = self.attn(s, h, hors)
        c = (a.unsqueeze(2) * h).sum(1)
        x = self.emb(y_prec)
        s = self.gru(torch.cat([x, c], 1), s)
        return self.sortie(torch.cat([s, c, x], 1)), s, a
