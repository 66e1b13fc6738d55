"""Module d'attention entre canaux (DANet, Fu et al. 2019), pour la
segmentation de rues.

    E = A A^T                      (C, C), A = la carte mise à plat (C, H*W)
    E' = max_j E_ij - E_ij         (comme dans le code des auteurs)
    X = softmax_j(E')
    sortie = gamma * (X A) + A

Pas de facteur d'échelle dans l'article : il n'y en a pas ici non plus.
Entrée et sortie : (B, C, H, W). gamma commence à zéro.
"""
import torch
from torch import nn


class AttentionCanaux(nn.Module):
    def __init__(self):
        super().__init__()
        self.gamma = nn.Parameter(torch.zeros(1))

    def forward(self, carte):
        lot, canaux, haut, larg = carte.size()
        plat = carte.view(lot, canaux, haut * larg)
        energie = torch.bmm(plat, plat.permute(0, 2, 1))
        # plus deux canaux se ressemblent, moins ils se parlent
        plafond = energie.max(dim=-1, keepdim=True).values
        poids = torch.softmax(plafond.expand_as(energie) - energie, dim=-1)
        sortie = torch.bmm(poids, plat).view(lot, canaux, haut, larg)
        return self.gamma * sortie + carte
