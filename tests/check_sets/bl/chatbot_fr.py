# -*- coding: utf-8 -*-
# Mini chatbot FR, encodeur-décodeur GRU. TP de M2, d'après le tutoriel seq2seq.
import random

import torch
import torch.nn as nn
import torch.nn.functional as F

DEBUT, FIN = 0, 1
LONGUEUR_MAX = 12


class EncodeurRNN(nn.Module):
    def __init__(self, taille_entree, taille_cachee):
        super().__init__()
        self.taille_cachee = taille_cachee
        self.embedding = nn.Embedding(taille_entree, taille_cachee)
        self.gru = nn.GRU(taille_cachee, taille_cachee)

    def forward(self, mot, cache):
        e = self.embedding(mot).view(1, 1, -1)
        return self.gru(e, cache)

    def init_cache(self):
        return torch.zeros(1, 1, self.taille_cachee)


class DecodeurAttention(nn.Module):
    """
    Décodeur avec attention de Bahdanau : à chaque pas, l'état du décodeur est comparé à
    chacune des sorties de l'encodeur, les scores passent par un softmax, et le
    contexte est la moyenne pondérée de ces sorties.

    mot: indice du mot précédent, cache: (1, 1, H), sorties_enc: (LONGUEUR_MAX, H)
    rend (log-probabilités, cache, poids (1, LONGUEUR_MAX))
    """

    def __init__(self, taille_cachee, taille_sortie, p_dropout=0.1, longueur_max=LONGUEUR_MAX):
        super().__init__()
        self.embedding = nn.Embedding(taille_sortie, taille_cachee)
        self.attn = nn.Linear(taille_cachee * 2, longueur_max)
        self.combine = nn.Linear(taille_cachee * 2, taille_cachee)
        self.dropout = nn.Dropout(p_dropout)
        self.gru = nn.GRU(taille_cachee, taille_cachee)
        self.out = nn.Linear(taille_cachee, taille_sortie)

    def forward(self, mot, cache, sorties_enc):
        e = self.dropout(self.embedding(mot).view(1, 1, -1))

        poids = F.softmax(self.attn(torch.cat((e[0], cache[0]), 1)), dim=1)
        contexte = torch.bmm(poids.unsqueeze(0), sorties_enc.unsqueeze(0))

        x = torch.cat((e[0], contexte[0]), 1)
        x = F.relu(self.combine(x).unsqueeze(0))
        x, cache = self.gru(x, cache)
        return F.log_softmax(self.out(x[0]), dim=1), cache, poids


def entrainer(phrase, reponse, enc, dec, opt, critere, taux_forcage=0.5):
    cache = enc.init_cache()
    opt.zero_grad()
    sorties = torch.zeros(LONGUEUR_MAX, enc.taille_cachee)
    for i, mot in enumerate(phrase):
        s, cache = enc(mot, cache)
        sorties[i] = s[0, 0]
    perte, entree = 0., torch.tensor(DEBUT)
    forcage = random.random() < taux_forcage
    for cible in reponse:
        y, cache, _ = dec(entree, cache, sorties)
        perte = perte + critere(y, cible.view(1))
        entree = cible if forcage else y.argmax(1).squeeze().detach()
        if entree.item() == FIN:
            break
    perte.backward()
    opt.step()
    return perte.item() / len(reponse)


if __name__ == '__main__':
    enc, dec = EncodeurRNN(20, 16), DecodeurAttention(16, 20)
    opt = torch.optim.SGD(list(enc.parameters()) + list(dec.parameters()), lr=0.01)
    for _ in range(3):
        print(entrainer(torch.tensor([3, 4, 5, 1]), torch.tensor([7, 8, 1]), enc, dec, opt, nn.NLLLoss()))
