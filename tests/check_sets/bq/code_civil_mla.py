"""Lecteur d'articles du Code civil : couche d'attention à latent compressé.

Au lieu des clés et des valeurs, on garde par jeton un vecteur latent `c`
(rang `rang`) et une petite clé positionnelle partagée par toutes les têtes.
Les matrices de remontée sont absorbées : la question est portée dans l'espace
latent, et l'on ne remonte que le résultat.  Causal ; avec une mémoire, les
nouveaux jetons viennent après ceux de la mémoire.
"""
import torch
from torch import nn


def angles(positions, dim, base=10000.0):
    inv = base ** (-torch.arange(0, dim, 2, dtype=torch.float32, device=positions.device) / dim)
    return positions.to(torch.float32)[:, None] * inv[None, :]


def tourner(x, ang):
    """Rotation par paires voisines (0,1), (2,3)…  x : [..., L, dim]."""
    c, s = ang.cos(), ang.sin()
    pair, impair = x[..., 0::2], x[..., 1::2]
    return torch.stack((pair * c - impair * s, pair * s + impair * c), dim=-1).flatten(-2)


class Memoire:
    """Mémoire d'une couche ; vide au départ."""

    def __init__(self):
        self.latent = None
        self.cle_pos = None

    def __len__(self):
        return 0 if self.latent is None else self.latent.size(1)

    def ajouter(self, latent, cle_pos):
        if self.latent is not None:
            latent = torch.cat((self.latent, latent), dim=1)
            cle_pos = torch.cat((self.cle_pos, cle_pos), dim=1)
        self.latent, self.cle_pos = latent, cle_pos
        return latent, cle_pos


class AttentionLatente(nn.Module):
    def __init__(self, largeur=96, tetes=6, d_contenu=16, d_pos=8, d_valeur=12, rang=20):
        super().__init__()
        self.tetes, self.d_contenu, self.d_pos, self.d_valeur = tetes, d_contenu, d_pos, d_valeur
        self.question = nn.Linear(largeur, tetes * (d_contenu + d_pos), bias=False)
        self.descente = nn.Linear(largeur, rang, bias=False)
        self.norme = nn.RMSNorm(rang, eps=1e-6)
        self.cle_positionnelle = nn.Linear(largeur, d_pos, bias=False)
        self.remontee_k = nn.Parameter(torch.randn(tetes, d_contenu, rang) * rang ** -0.5)
        self.remontee_v = nn.Parameter(torch.randn(tetes, d_valeur, rang) * rang ** -0.5)
        self.sortie = nn.Linear(tetes * d_valeur, largeur, bias=False)
        # l'échelle est celle de la clé entière, pas celle du rang
        self.echelle = (d_contenu + d_pos) ** -0.5

    def forward(self, x, memoire=None):
        B, L, _ = x.shape
        deja = len(memoire) if memoire is not None else 0
        ang = angles(torch.arange(deja, deja + L, device=x.device), self.d_pos).to(x.dtype)

        q = self.question(x).view(B, L, self.tetes, -1).transpose(1, 2)
        q_contenu, q_pos = q.split((self.d_contenu, self.d_pos), dim=-1)
        q_pos = tourner(q_pos, ang)

        latent = self.norme(self.descente(x))
        cle_pos = tourner(self.cle_positionnelle(x), ang)
        if memoire is not None:
            latent, cle_pos = memoire.ajouter(latent, cle_pos)

        q_latent = torch.einsum("bhld,hdr->bhlr", q_contenu, self.remontee_k)
        s = torch.einsum("bhlr,bmr->bhlm", q_latent, latent)
        s = s + torch.einsum("bhlp,bmp->bhlm", q_pos, cle_pos)
        s = s * self.echelle
        M = latent.size(1)
        interdit = torch.ones(L, M, dtype=torch.bool, device=x.device).triu(1 + M - L)
        s = s.masked_fill(interdit, float("-inf"))
        p = s.softmax(-1, dtype=torch.float32).to(x.dtype)
        z = torch.einsum("bhlm,bmr->bhlr", p, latent)
        z = torch.einsum("bhlr,hvr->blhv", z, self.remontee_v)
        return self.sortie(z.reshape(B, L, self.tetes * self.d_valeur))


class LecteurArticles(nn.Module):
    def __init__(self, vocabulaire=512, largeur=96, couches=2):
        super().__init__()
        self.mots = nn.Embedding(vocabulaire, largeur)
        self.couches = nn.ModuleList([AttentionLatente(largeur) for _ in range(couches)])
        self.normes = nn.ModuleList([nn.LayerNorm(largeur) for _ in range(couches)])

    def forward(self, jetons, memoires=None):
        h = self.mots(jetons)
        for i, (n, a) in enumerate(zip(self.normes, self.couches)):
            h = h + a(n(h), None if memoires is None else memoires[i])
        return h @ self.mots.weight.t()
