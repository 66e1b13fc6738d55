"""Apprentissage par instances multiples : agrégation par attention à portes (Ilse et al. 2018)."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class SacDInstances(nn.Module):
    """Classe un sac d'instances (les tuiles d'une lame, par exemple).

    instances : (B, N, D), des sacs complétés à N instances
    vrai      : (B, N) bool, True = vraie instance, False = remplissage ; chaque sac
                contient au moins une vraie instance

    Renvoie
      logits  : (B, classes)
      poids   : (B, N), les poids d'attention de chaque sac : positifs, de somme 1 sur
                les vraies instances du sac, nuls ailleurs, en apprentissage comme en
                évaluation (l'abandon n'agit que sur la somme pondérée)

    a_n = w^T (tanh(V x_n) * sigmoid(U x_n)), poids = softmax de a sur les instances du sac.
    """

    def __init__(self, D, A=64, classes=2, abandon=0.25):
        super().__init__()
        self.V = nn.Linear(D, A)
        self.U = nn.Linear(D, A)
        self.w = nn.Linear(A, 1)
        self.abandon = abandon
        self.tete = nn.Linear(D, classes)

    def forward(self, instances, vrai):
        a = self.w(torch.tanh(self.V(instances)) * torch.sigmoid(self.U(instances))).squeeze(-1)
        a = a.masked_fill(~vrai, -1e9)
        poids = F.softmax(a, dim=0)
        poids = F.dropout(poids, self.abandon, self.training)
        z = torch.einsum("bn,bnd->bd", poids, instances)
        return self.tete(z), poids
