"""Pronóstico de demanda eléctrica, atención lineal (Katharopoulos et al. 2020).

phi(x) = elu(x) + 1. No hay softmax ni factor 1/sqrt(d).
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class AtencionLineal(nn.Module):
    """Causal: la hora t usa las horas 1..t, ella misma incluida.

    serie: (lote, horas, dim). El coste es lineal en las horas.
    """

    def __init__(self, dim=24, cabezas=3, eps=1e-6):
        super().__init__()
        self.cabezas = cabezas
        self.eps = eps
        self.consulta = nn.Linear(dim, dim)
        self.clave = nn.Linear(dim, dim)
        self.valor = nn.Linear(dim, dim)
        self.salida = nn.Linear(dim, dim)

    def partir(self, z):
        return z.view(z.shape[0], z.shape[1], self.cabezas, -1)

    def forward(self, serie):
        q = F.elu(self.partir(self.consulta(serie))) + 1
        k = F.elu(self.partir(self.clave(serie))) + 1
        v = self.partir(self.valor(serie))
        # memoria acumulada: suma de k_j v_j^T hasta cada hora
        memoria = torch.einsum("bthi,bthj->bthij", k, v).cumsum(dim=1)
        total = k.cumsum(dim=1)
        arriba = torch.einsum("bthi,bthij->bthj", q, memoria)
        abajo = torch.einsum("bthi,bthi->bth", q, total)
        mezcla = arriba / (abajo.unsqueeze(-1) + self.eps)
        return self.salida(mezcla.flatten(2))


class Pronostico(nn.Module):
    """(lote, horas, rasgos) -> la demanda de la hora siguiente, (lote, horas)"""

    def __init__(self, rasgos=3, dim=24, cabezas=3, capas=2):
        super().__init__()
        self.entrada = nn.Linear(rasgos, dim)
        self.capas = nn.ModuleList([AtencionLineal(dim, cabezas) for _ in range(capas)])
        self.normas = nn.ModuleList([nn.LayerNorm(dim) for _ in range(capas)])
        self.fin = nn.Linear(dim, 1)

    def forward(self, x):
        x = self.entrada(x)
        for capa, norma in zip(self.capas, self.normas):
            x = x + capa(norma(x))
        return self.fin(x).squeeze(-1)
