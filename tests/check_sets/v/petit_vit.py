# Petit ViT pour images 16x16 (exercice de cours)
import torch
from torch import nn


class Decoupe(nn.Module):
    def __init__(self, cote, canaux, dim):
        super().__init__()
        self.cote = cote
        self.lin = nn.Linear(canaux * cote * cote, dim)

    def forward(self, images):
        p = self.cote
        m = images.unfold(2, p, p).unfold(3, p, p)            # lot, c, nh, nw, p, p
        m = m.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)
        return self.lin(m)


class Attention(nn.Module):
    def __init__(self, dim, tetes):
        super().__init__()
        self.tetes = tetes
        self.echelle = (dim // tetes) ** -0.5
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.sortie = nn.Linear(dim, dim)

    def forward(self, x):
        lot, n, dim = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=2)
        q = q.reshape(lot, n, self.tetes, -1).transpose(1, 2)
        k = k.reshape(lot, n, self.tetes, -1).transpose(1, 2)
        v = v.reshape(lot, n, self.tetes, -1).transpose(1, 2)
        poids = ((q * self.echelle) @ k.transpose(2, 3)).softmax(dim=3)
        y = poids @ v
        y = y.reshape(lot, n, dim)
        return self.sortie(y)


class Bloc(nn.Module):
    def __init__(self, dim, tetes):
        super().__init__()
        self.norme1 = nn.LayerNorm(dim)
        self.attention = Attention(dim, tetes)
        self.norme2 = nn.LayerNorm(dim)
        self.perceptron = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.attention(self.norme1(x))
        return x + self.perceptron(self.norme2(x))


class PetitViT(nn.Module):
    def __init__(self, classes=10, cote=4, dim=24, tetes=3, profondeur=2, taille=16):
        super().__init__()
        self.decoupe = Decoupe(cote, 3, dim)
        n = (taille // cote) ** 2
        self.jeton = nn.Parameter(torch.randn(1, 1, dim))
        self.position = nn.Parameter(torch.randn(1, n + 1, dim))
        self.blocs = nn.Sequential(*(Bloc(dim, tetes) for _ in range(profondeur)))
        self.tete = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, images):
        x = self.decoupe(images)
        x = torch.cat([self.jeton.repeat(len(x), 1, 1), x], dim=1) + self.position
        return self.tete(self.blocs(x)[:, 0])


if __name__ == "__main__":
    torch.manual_seed(0)
    print(PetitViT()(torch.randn(2, 3, 16, 16)))
