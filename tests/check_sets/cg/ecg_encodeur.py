"""Encodeur ECG 12 dérivations pour le tri des arythmies (service de télécardiologie).

Chaque enregistrement est une suite de battements : un battement = un vecteur
(12 dérivations x échantillons, déjà aligné sur le pic R).  Le nombre de
battements varie d'un patient à l'autre ; ``longueurs`` donne le nombre de
battements réels, la fin est du bourrage et n'est jamais regardée.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class ConfigECG:
    taille_battement: int = 36
    dim: int = 32
    tetes: int = 4
    couches: int = 2
    classes: int = 5
    abandon: float = 0.1


class BlocBattements(nn.Module):
    def __init__(self, cfg: ConfigECG):
        super().__init__()
        self.tetes = cfg.tetes
        self.abandon = cfg.abandon
        self.norme1 = nn.LayerNorm(cfg.dim)
        self.norme2 = nn.LayerNorm(cfg.dim)
        self.qkv = nn.Linear(cfg.dim, 3 * cfg.dim)
        self.sortie = nn.Linear(cfg.dim, cfg.dim)
        self.mlp = nn.Sequential(
            nn.Linear(cfg.dim, 4 * cfg.dim), nn.GELU(), nn.Linear(4 * cfg.dim, cfg.dim)
        )

    def forward(self, x, reel):
        # x : [lot, battements, dim] ; reel : [lot, battements], vrai = battement réel
        b, n, c = x.shape
        q, k, v = self.qkv(self.norme1(x)).chunk(3, dim=-1)
        q, k, v = (t.reshape(b, n, self.tetes, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(
            q, k, v,
            attn_mask=reel[:, None, None, :],
            dropout_p=self.abandon if self.training else 0.0,
        )
        x = x + self.sortie(y.transpose(1, 2).reshape(b, n, c))
        return x + self.mlp(self.norme2(x))


class EncodeurECG(nn.Module):
    """Suite de blocs pré-normés, moyenne sur les battements réels, puis classes."""

    def __init__(self, cfg: ConfigECG = ConfigECG()):
        super().__init__()
        self.entree = nn.Linear(cfg.taille_battement, cfg.dim)
        self.blocs = nn.ModuleList(BlocBattements(cfg) for _ in range(cfg.couches))
        self.norme = nn.LayerNorm(cfg.dim)
        self.tete = nn.Linear(cfg.dim, cfg.classes)

    def forward(self, battements, longueurs):
        x = self.entree(battements)
        rang = torch.arange(x.shape[1], device=x.device)
        reel = rang[None, :] < longueurs[:, None]
        for bloc in self.blocs:
            x = bloc(x, reel)
        x = self.norme(x)
        poids = reel.unsqueeze(-1).to(x.dtype)
        resume = (x * poids).sum(1) / poids.sum(1)
        return self.tete(resume)
