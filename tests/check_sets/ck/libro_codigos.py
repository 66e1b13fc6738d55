"""VQ-VAE (van den Oord et al. 2017): cuantizacion vectorial con un libro de codigos."""
import torch
import torch.nn as nn
import torch.nn.functional as F


class LibroCodigos(nn.Module):
    """
    z (B, T, D) -> z_q (B, T, D), indices (B, T), perdida

    Cada vector se cambia por el codigo mas cercano; el gradiente pasa recto
    (straight-through). perdida = ||sg[z] - e||^2 + beta ||z - sg[e]||^2
    """

    def __init__(self, K=32, D=16, beta=0.25):
        super().__init__()
        self.K, self.D, self.beta = K, D, beta
        self.claves = nn.Embedding(K, D)
        nn.init.uniform_(self.claves.weight, -1 / K, 1 / K)

    def distancias(self, z):
        e = self.claves.weight
        return z.pow(2).sum(-1, keepdim=True) - 2 * z @ e.t() + e.pow(2).sum(-1)

    def forward(self, z):
        # el codigo ganador de cada vector
        idx = self.distancias(z).argmin(dim=-1)
        e = self.claves(idx)
        perdida = F.mse_loss(e, z.detach()) + self.beta * F.mse_loss(z, e.detach())
        return z + (e - z).detach(), idx, perdida
