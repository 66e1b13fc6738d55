"""Bloc « non local » pour images (Wang et al., 2018), version gaussienne plongee.

    y_i = somme_j softmax_j( theta(x_i)^T phi(x_j) ) g(x_j)
    z_i = W_z y_i + x_i

Comme dans l'article, PAS de facteur 1/sqrt(C') devant le produit scalaire : theta et phi
l'apprennent. phi et g peuvent etre sous-echantillonnees (max-pool 2x2), theta non.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class BlocNonLocal(nn.Module):
    def __init__(self, canaux, inter=None, sous=True):
        super().__init__()
        inter = inter or max(canaux // 2, 1)
        self.ci = inter
        self.theta = nn.Conv2d(canaux, inter, 1)
        self.phi = nn.Conv2d(canaux, inter, 1)
        self.g = nn.Conv2d(canaux, inter, 1)
        self.w_z = nn.Conv2d(inter, canaux, 1)
        self.sous = sous

    def forward(self, x):
        """x : (N, C, H, W) avec H et W pairs si `sous`. Renvoie la meme forme."""
        n, _, h, w = x.shape
        th = self.theta(x).flatten(2)              # (N, C', HW)
        ph, ge = self.phi(x), self.g(x)
        if self.sous:
            ph = F.max_pool2d(ph, 2)
            ge = F.max_pool2d(ge, 2)
        ph = ph.flatten(2)                         # (N, C', M)
        ge = ge.flatten(2)
        f = torch.bmm(ph.transpose(1, 2), th)      # (N, M, HW) : lignes = positions regardees
        f = F.softmax(f, dim=1)                    # chaque COLONNE (un i) somme a 1
        y = torch.bmm(ge, f).view(n, self.ci, h, w)
        return x + self.w_z(y)
