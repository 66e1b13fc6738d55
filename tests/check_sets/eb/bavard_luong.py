"""Petit chatbot : un pas de decodeur GRU avec attention de Luong (« general »).

    score_j = h_t^T W_a s_j / racine(d)          (variante avec mise a l'echelle)
    alpha   = softmax sur les vrais mots de la source
    c_t     = somme_j alpha_j s_j
    h~_t    = tanh(W_c [c_t ; h_t])

Le pas renvoie aussi alpha (chaque ligne somme a 1), pour dessiner la carte d'alignement.
"""
import math
import torch
import torch.nn as nn


class PasLuong(nn.Module):
    def __init__(self, vocab, d):
        super().__init__()
        self.d = d
        self.plongement = nn.Embedding(vocab, d)
        self.gru = nn.GRUCell(d, d)
        self.wa = nn.Linear(d, d, bias=False)
        self.wc = nn.Linear(2 * d, d)
        self.sortie = nn.Linear(d, vocab)

    def forward(self, mot, h, source, est_mot):
        """
        mot (B,) entiers, mot precedent ; h (B, d) etat
        source (B, S, d) etats de l'encodeur
        est_mot (B, S) booleen : True = vrai mot, False = remplissage (au moins un vrai mot)
        renvoie logits (B, vocab), h (B, d), alpha (B, S)
        """
        h = self.gru(self.plongement(mot), h)
        scores = torch.matmul(self.wa(source), h.unsqueeze(-1)).squeeze(-1)
        scores = scores / math.sqrt(self.d)
        scores = scores.masked_fill(est_mot, torch.finfo(scores.dtype).min)
        alpha = torch.softmax(scores, dim=-1)
        c = torch.matmul(alpha.unsqueeze(1), source).squeeze(1)
        h_att = torch.tanh(self.wc(torch.cat([c, h], dim=-1)))
        return self.sortie(h_att), h, scores


def repondre(pas, source, est_mot, debut, n):
    """Decodage glouton de n mots a partir de l'indice `debut`. -> (B, n)"""
    B = source.size(0)
    mot = torch.full((B,), debut, dtype=torch.long)
    h = source.new_zeros(B, pas.d)
    mots = []
    for _ in range(n):
        logits, h, _ = pas(mot, h, source, est_mot)
        mot = logits.argmax(-1)
        mots.append(mot)
    return torch.stack(mots, 1)
