import torch
from torch import nn


class Objets(nn.Module):
    """Regroupe des pixels en K objets (les objets se disputent chaque pixel).

    entree: (B, N, D) ; graine: (B, K, D) etat initial des objets.
    A chaque tour, la part de chaque pixel est repartie entre les objets
    (somme 1 sur les objets), puis chaque objet prend la moyenne ponderee.
    Renvoie les objets et la repartition (B, K, N).
    """

    def __init__(self, dim, tours=3, eps=1e-8):
        super().__init__()
        self.tours, self.eps, self.echelle = tours, eps, dim ** -0.5
        self.n_e, self.n_o, self.n_m = nn.LayerNorm(dim), nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.q = nn.Linear(dim, dim, bias=False)
        self.k = nn.Linear(dim, dim, bias=False)
        self.v = nn.Linear(dim, dim, bias=False)
        self.gru = nn.GRUCell(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ReLU(), nn.Linear(2 * dim, dim))

    def forward(self, entree, graine):
        e = self.n_e(entree)
        k, v = self.k(e), self.v(e)
        o = graine
        for _ in range(self.tours):
            q = self.q(self.n_o(o)) * self.echelle
            part = torch.softmax(q @ k.mT, dim=1)             # (B, K, N)
            poids = part + self.eps
            poids = poids / poids.sum(-1, keepdim=True)
            maj = poids @ v
            B, K, D = o.shape
            o = self.gru(maj.reshape(-1, D), o.reshape(-1, D)).view(B, K, D)
            o = o + self.mlp(self.n_m(o))
        return o, part
