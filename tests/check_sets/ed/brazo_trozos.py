"""Política causal para un brazo robótico, ejecutada a trozos.

El robot manda las observaciones en trozos de T instantes (T puede ser 1). La memoria
guarda las claves y valores de los instantes anteriores.

obs      (B, T, O)   observaciones nuevas
memoria  None al empezar; después, lo que devolvió la llamada anterior
devuelve acciones (B, T, A), memoria

El instante t (contado desde el principio del episodio) atiende a todos los instantes
0..t, incluidos los que ya están en la memoria, y a ninguno posterior. Por eso, enviar
el episodio entero o en trozos da las mismas acciones.
"""
import torch
import torch.nn as nn
import torch.nn.functional as F


class Capa(nn.Module):
    def __init__(self, dim, cabezas):
        super().__init__()
        self.cabezas = cabezas
        self.norma_a, self.norma_m = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.salida = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.ELU(), nn.Linear(2 * dim, dim))

    def forward(self, x, memoria):
        b, t, d = x.shape
        q, k, v = self.qkv(self.norma_a(x)).chunk(3, dim=-1)
        q, k, v = (m.view(b, t, self.cabezas, -1).transpose(1, 2) for m in (q, k, v))
        if memoria is not None:
            k = torch.cat([memoria[0], k], dim=2)
            v = torch.cat([memoria[1], v], dim=2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=t > 1)
        x = x + self.salida(y.transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.norma_m(x)), (k, v)


class PoliticaBrazo(nn.Module):
    def __init__(self, obs, acciones, dim=64, cabezas=4, capas=2):
        super().__init__()
        self.entrada = nn.Linear(obs, dim)
        self.capas = nn.ModuleList(Capa(dim, cabezas) for _ in range(capas))
        self.norma = nn.LayerNorm(dim)
        self.cabeza = nn.Linear(dim, acciones)

    def forward(self, obs, memoria=None):
        x = self.entrada(obs)
        nueva = []
        for i, capa in enumerate(self.capas):
            x, m = capa(x, None if memoria is None else memoria[i])
            nueva.append(m)
        return torch.tanh(self.cabeza(self.norma(x))), nueva
