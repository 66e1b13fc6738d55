# Lecteur de tickets de caisse.  Attention additive (Bahdanau) avec couverture.
#
# Le temps est l'axe 0, comme dans nn.GRU par défaut :
#   memoire  (S, B, M)     sortie de l'encodeur, une colonne d'image par pas
#   absent   (S, B) bool   True = colonne de remplissage
#   etat     (B, H)
import torch
from torch import nn


class AttentionCouverture(nn.Module):
    """e_s = v . tanh(W m_s + U h + c_s f),  a = softmax_s(e);  c = somme des a passés."""

    def __init__(self, M, H, A):
        super().__init__()
        self.W = nn.Linear(M, A, bias=False)
        self.U = nn.Linear(H, A)
        self.f = nn.Parameter(torch.zeros(A).uniform_(-0.1, 0.1))
        self.v = nn.Linear(A, 1, bias=False)

    def forward(self, etat, memoire, absent, couverture):
        z = self.W(memoire) + self.U(etat) + couverture.unsqueeze(-1) * self.f
        e = self.v(z.tanh()).squeeze(-1)                         # (S, B)
        a = e.masked_fill(absent, float("-inf")).softmax(0)
        return torch.einsum("sb,sbm->bm", a, memoire), a, couverture + a


class Decodeur(nn.Module):
    def __init__(self, vocab, M=64, H=64, A=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, H)
        self.att = AttentionCouverture(M, H, A)
        self.cell = nn.GRUCell(H + M, H)
        self.sortie = nn.Linear(H + M, vocab)
        self.h0 = nn.Linear(M, H)

    def forward(self, memoire, absent, cible):
        """cible (L, B) : caractères précédents (teacher forcing)"""
        n = (~absent).sum(0).unsqueeze(-1)
        h = torch.tanh(self.h0(memoire.masked_fill(absent.unsqueeze(-1), 0).sum(0) / n))
        c = torch.zeros_like(absent, dtype=memoire.dtype)
        logits, penalite = [], 0.0
        for y in self.emb(cible):
            ctx, a, c_nouv = self.att(h, memoire, absent, c)
            penalite = penalite + torch.minimum(a, c).sum(0).mean()
            c = c_nouv
            h = self.cell(torch.cat([y, ctx], -1), h)
            logits.append(self.sortie(torch.cat([h, ctx], -1)))
        return torch.stack(logits), penalite / len(cible)


class Encodeur(nn.Module):
    def __init__(self, hauteur=32, M=64):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d((2, 2)),
                                  nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
        self.rnn = nn.GRU(16 * hauteur // 2, M // 2, bidirectional=True)

    def forward(self, image):
        f = self.conv(image).flatten(1, 2)          # (B, C*h, S)
        return self.rnn(f.permute(2, 0, 1))[0]
