"""TP 4 : traduire avec un GRU et l'attention de Bahdanau (corrigé).

À chaque pas le décodeur compare son état s à chaque état h_j de l'encodeur :
    e_j = v . tanh(W s + U h_j),   a = softmax_j(e),   c = sum_j a_j h_j
"""
import torch
from torch import nn


class AttentionAdditive(nn.Module):
    def __init__(self, n, m, a):
        super().__init__()
        self.W = nn.Linear(n, a, bias=False)
        self.U = nn.Linear(m, a)
        self.v = nn.Linear(a, 1, bias=False)

    def forward(self, s, h, vrai):
        # s (B, n), h (B, S, m), vrai (B, S)
        e = self.v(torch.tanh(self.W(s).unsqueeze(1) + self.U(h))).squeeze(-1)
        e = e.masked_fill(vrai.logical_not(), float("-inf"))
        a = torch.softmax(e, dim=1)
        return torch.bmm(a.unsqueeze(1), h).squeeze(1), a


class Decodeur(nn.Module):
    """Décodeur avec forçage du professeur.

    cible (B, T)   : mots déjà traduits, décalés (commence par <debut>)
    h     (B, S, m): états de l'encodeur
    vrai  (B, S)   : booléen, True = vrai mot source, False = remplissage (poids 0) ;
                     au moins un True par phrase
    s0    (B, n)   : état initial
    Renvoie (logits (B, T, vocab), alphas (B, T, S)), chaque ligne d'alphas somme à 1.
    """

    def __init__(self, vocab, e=16, n=24, m=20, a=12):
        super().__init__()
        self.mots = nn.Embedding(vocab, e)
        self.att = AttentionAdditive(n, m, a)
        self.gru = nn.GRUCell(e + m, n)
        self.sortie = nn.Linear(n + m + e, vocab)

    def forward(self, cible, h, vrai, s0):
        s, logits, alphas = s0, [], []
        for y in self.mots(cible).unbind(1):
            c, a = self.att(s, h, vrai)
            s = self.gru(torch.cat([y, c], -1), s)
            logits.append(self.sortie(torch.cat([s, c, y], -1)))
            alphas.append(a)
        return torch.stack(logits, 1), torch.stack(alphas, 1)
