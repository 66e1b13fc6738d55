"""Attention U-Net (Oktay et al.) pour la segmentation du pancréas : porte d'attention.

La carte du saut x [B, Cx, H, W] est pondérée, pixel par pixel, par un coefficient
dans (0, 1) calculé avec le signal g [B, Cg, H/2, W/2] de l'étage inférieur :

    q     = psi( relu( Wx*x + up(Wg*g) ) )        1x1, un seul canal
    alpha = sigmoid(q)                             [B, 1, H, W]
    y     = alpha * x

C'est bien une sigmoïde (la softmax spatiale donnait des cartes trop creuses,
cf. l'article, section 2) : les coefficients ne somment donc pas à 1.
H et W sont pairs ; l'agrandissement est bilinéaire (align_corners=False).
"""
import torch
from torch import nn
from torch.nn import functional as F


class Porte(nn.Module):
    def __init__(self, cx, cg, ci):
        super().__init__()
        self.wx = nn.Conv2d(cx, ci, 1, bias=False)
        self.wg = nn.Conv2d(cg, ci, 1)
        self.psi = nn.Conv2d(ci, 1, 1)

    def forward(self, x, g):
        montee = F.interpolate(self.wg(g), size=x.shape[2:], mode="bilinear", align_corners=False)
        q = self.psi(F.relu(self.wx(x) + montee))
        alpha = torch.sigmoid(q)
        return alpha * x, alpha


class Etage(nn.Module):
    """un étage du décodeur : porte, concaténation, deux convolutions"""

    def __init__(self, cx, cg, sortie):
        super().__init__()
        self.porte = Porte(cx, cg, max(cx // 2, 1))
        self.conv = nn.Sequential(
            nn.Conv2d(cx + cg, sortie, 3, padding=1), nn.ReLU(),
            nn.Conv2d(sortie, sortie, 3, padding=1), nn.ReLU())

    def forward(self, x, g):
        y, _ = self.porte(x, g)
        haut = F.interpolate(g, size=x.shape[2:], mode="bilinear", align_corners=False)
        return self.conv(torch.cat([y, haut], dim=1))


def dice(p, cible, eps=1e-6):
    inter = (p * cible).sum()
    return (2 * inter + eps) / (p.sum() + cible.sum() + eps)
