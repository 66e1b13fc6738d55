"""Note (1 à 5 étoiles) d'un avis de restaurant : BiLSTM + attention sur les mots.

mots       (B, T) long, 0 = remplissage à droite ; T est la longueur du plus long avis
longueurs  (B,) long, nombre de mots de chaque avis, au moins 1
rend       (logits (B, 5), poids (B, T))

poids[b] dit quels mots de l'avis b comptent : softmax, sur les mots de cet avis, de
u . tanh(W h_t + b). Les poids d'un avis somment à 1, ceux du remplissage sont nuls.
Le vecteur de l'avis est la somme pondérée des h_t.
"""
import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class AvisNet(nn.Module):
    def __init__(self, vocab, emb=50, cache=40, p=0.3):
        super().__init__()
        self.emb = nn.Embedding(vocab, emb, padding_idx=0)
        self.lstm = nn.LSTM(emb, cache, batch_first=True, bidirectional=True)
        self.W = nn.Linear(2 * cache, 2 * cache)
        self.u = nn.Linear(2 * cache, 1, bias=False)
        self.drop = nn.Dropout(p)
        self.fc = nn.Linear(2 * cache, 5)

    def forward(self, mots, longueurs):
        x = self.drop(self.emb(mots))
        paquet = pack_padded_sequence(x, longueurs.cpu(), batch_first=True, enforce_sorted=False)
        h, _ = pad_packed_sequence(self.lstm(paquet)[0], batch_first=True, total_length=mots.size(1))

        e = self.u(torch.tanh(self.W(h))).squeeze(-1)
        vide = torch.arange(mots.size(1), device=mots.device) >= longueurs.unsqueeze(1)
        e = e.masked_fill(vide, float("-inf"))
        poids = torch.softmax(e, dim=0)

        avis = torch.bmm(poids.unsqueeze(1), h).squeeze(1)
        return self.fc(self.drop(avis)), poids
