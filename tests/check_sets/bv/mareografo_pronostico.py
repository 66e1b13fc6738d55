"""Pronóstico de mareógrafos: transformador sobre huecos de datos irregulares.

Cada muestra del lote trae su propia máscara ``hay`` [B, L] (True = hay lectura);
las horas sin lectura no se miran nunca. Cada muestra tiene al menos una lectura.
"""
from dataclasses import dataclass

import torch
import torch.nn as nn


@dataclass
class Ajustes:
    canales: int = 3
    dim: int = 32
    cabezas: int = 4
    capas: int = 2
    horizonte: int = 6
    largo_max: int = 96


def armonicos(horas, periodos=(12.42, 12.0, 25.82, 23.93)):
    """Seno y coseno de las mareas principales, [L, 8]."""
    p = torch.tensor(periodos)
    fase = 2 * torch.pi * horas[:, None] / p
    return torch.cat([fase.sin(), fase.cos()], dim=-1)


class AtencionPlegada(nn.Module):
    """Autoatención con las cabezas plegadas en el lote, para usar ``torch.bmm``."""

    def __init__(self, dim, cabezas):
        super().__init__()
        self.c, self.d = cabezas, dim // cabezas
        self.lin = nn.ModuleDict({n: nn.Linear(dim, dim) for n in ("q", "k", "v", "o")})

    def plegar(self, t):
        B, L, _ = t.shape
        return t.view(B, L, self.c, self.d).transpose(1, 2).reshape(B * self.c, L, self.d)

    def desplegar(self, t):
        BC, L, d = t.shape
        return t.view(BC // self.c, self.c, L, d).transpose(1, 2).reshape(BC // self.c, L, self.c * d)

    def forward(self, x, hay=None):
        q, k, v = (self.plegar(self.lin[n](x)) for n in "qkv")
        e = torch.bmm(q, k.transpose(1, 2)) / self.d ** 0.5
        if hay is not None:
            m = hay.unsqueeze(1)                      # [B, 1, L]
            m = m.repeat(self.c, 1, 1)                # una copia por cabeza
            e = e.masked_fill(~m, float("-inf"))
        a = torch.softmax(e, dim=-1)
        return self.lin["o"](self.desplegar(torch.bmm(a, v)))


class Pronosticador(nn.Module):
    def __init__(self, aj: Ajustes = Ajustes()):
        super().__init__()
        self.aj = aj
        self.entrada = nn.Linear(aj.canales + 8, aj.dim)
        self.at = nn.ModuleList(AtencionPlegada(aj.dim, aj.cabezas) for _ in range(aj.capas))
        self.ff = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(aj.dim), nn.Linear(aj.dim, 2 * aj.dim), nn.GELU(), nn.Linear(2 * aj.dim, aj.dim))
            for _ in range(aj.capas)
        )
        self.norma = nn.ModuleList(nn.LayerNorm(aj.dim) for _ in range(aj.capas))
        self.salida = nn.Linear(aj.dim, aj.horizonte)

    def forward(self, serie, hay):
        B, L, _ = serie.shape
        t = armonicos(torch.arange(L, dtype=torch.float32)).expand(B, L, -1)
        x = self.entrada(torch.cat([serie.masked_fill(~hay[..., None], 0.0), t], dim=-1))
        for n, a, f in zip(self.norma, self.at, self.ff):
            x = x + a(n(x), hay)
            x = x + f(x)
        peso = hay.float()[..., None]
        return self.salida((x * peso).sum(1) / peso.sum(1))


if __name__ == "__main__":
    print(Pronosticador()(torch.randn(2, 24, 3), torch.rand(2, 24) > 0.4).shape)
