"""Déconvolution de pics HPLC par affectation compétitive.

Un chromatogramme est une suite de points (temps, absorbance, dérivée). K « cases » se
disputent les points : pour un point donné, la somme des parts sur les cases vaut 1
(compétition entre les cases) ; la mise à jour d'une case est ensuite la moyenne des
valeurs pondérée par ses parts renormalisées sur les points.
"""
import torch
import torch.nn as nn


class Points(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.mlp = nn.Sequential(nn.Linear(3, dim), nn.Tanh(), nn.Linear(dim, dim))
        self.norm = nn.LayerNorm(dim)

    def forward(self, t, absorbance):
        deriv = torch.diff(absorbance, dim=1, prepend=absorbance[:, :1])
        return self.norm(self.mlp(torch.stack([t, absorbance, deriv], -1)))


class Tirage(nn.Module):
    """Tire les cases initiales ; en mode éval. on prend la moyenne, pour la répétabilité."""

    def __init__(self, k, dim):
        super().__init__()
        self.k = k
        self.mu = nn.Parameter(torch.randn(k, dim) * dim ** -0.5)
        self.log_sigma = nn.Parameter(torch.full((dim,), -2.0))

    def forward(self, b):
        mu = self.mu.expand(b, -1, -1)
        if not self.training:
            return mu
        return mu + self.log_sigma.exp() * torch.randn_like(mu)


class CasesDePics(nn.Module):
    """entree [B, N, dim] -> cases [B, K, dim], parts [B, K, N] (somme 1 sur K)."""

    EPS = 1e-8

    def __init__(self, k=4, dim=16, tours=3):
        super().__init__()
        self.tours = tours
        self.tirage = Tirage(k, dim)
        self.vers_q = nn.Linear(dim, dim, bias=False)
        self.vers_k = nn.Linear(dim, dim, bias=False)
        self.vers_v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.norm_cases = nn.LayerNorm(dim)
        self.norm_mlp = nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, entree):
        b, n, d = entree.shape
        cles, valeurs = self.vers_k(entree), self.vers_v(entree)
        cases = self.tirage(b)
        for _ in range(self.tours):
            avant = cases
            q = self.vers_q(self.norm_cases(cases))
            affinite = q @ cles.transpose(1, 2) * d ** -0.5        # [B, K, N]
            parts = affinite.softmax(dim=1)                        # compétition entre cases
            poids = (parts + self.EPS) / (parts + self.EPS).sum(dim=2, keepdim=True)
            maj = poids @ valeurs
            cases = self.gru(maj.reshape(-1, d), avant.reshape(-1, d)).view(b, -1, d)
            cases = cases + self.mlp(self.norm_mlp(cases))
        return cases, parts


class Chromatogramme(nn.Module):
    """Renvoie les aires relatives et les temps de rétention des K pics."""

    def __init__(self, k=4, dim=16):
        super().__init__()
        self.points = Points(dim)
        self.cases = CasesDePics(k, dim)
        self.lecture = nn.Linear(dim, 2)

    def forward(self, t, absorbance):
        cases, parts = self.cases(self.points(t, absorbance))
        aires = (parts * absorbance[:, None]).sum(-1)
        aires = aires / aires.sum(-1, keepdim=True)
        temps, largeur = self.lecture(cases).unbind(-1)
        return {"aires": aires, "tr": temps, "largeur": largeur.exp(), "parts": parts}


if __name__ == "__main__":
    t = torch.linspace(0, 10, 60).expand(2, -1)
    y = torch.exp(-(t - 3) ** 2) + 0.4 * torch.exp(-2 * (t - 5) ** 2)
    res = Chromatogramme().eval()(t, y)
    print(res["aires"], res["tr"])
