"""Bloque codificador (pre-norma) usado en el clasificador de reseñas.

Entrada  x        [B, L, D]
         relleno  [B, L] bool, True donde la posición es relleno (se ignora como clave)
Salida            [B, L, D]
"""
import torch
from torch import nn


class AtencionMultiple(nn.Module):
    def __init__(self, dim=32, cabezas=4, p=0.0):
        super().__init__()
        assert dim % cabezas == 0
        self.h, self.d = cabezas, dim // cabezas
        self.consulta = nn.Linear(dim, dim)
        self.clave = nn.Linear(dim, dim, bias=False)
        self.valor = nn.Linear(dim, dim)
        self.salida = nn.Linear(dim, dim)
        self.apagado = nn.Dropout(p)

    def forward(self, x, relleno=None):
        b, l, _ = x.shape
        # la raíz se reparte entre consultas y claves: menos rango en media precisión
        cuarta = self.d ** -0.25
        q = self.consulta(x).view(b, l, self.h, self.d) * cuarta
        k = self.clave(x).view(b, l, self.h, self.d) * cuarta
        v = self.valor(x).view(b, l, self.h, self.d)
        punt = torch.einsum("bqhd,bkhd->bhqk", q, k)
        if relleno is not None:
            punt = punt.masked_fill(relleno[:, None, None, :], torch.finfo(punt.dtype).min)
        pesos = self.apagado(torch.softmax(punt.float(), -1).to(v.dtype))
        y = torch.einsum("bhqk,bkhd->bqhd", pesos, v)
        return self.salida(y.flatten(2))


class BloqueCodificador(nn.Module):
    def __init__(self, dim=32, cabezas=4, mult=2, p=0.0):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.atn = AtencionMultiple(dim, cabezas, p)
        self.mlp = nn.Sequential(nn.Linear(dim, mult * dim), nn.GELU(), nn.Linear(mult * dim, dim))

    def forward(self, x, relleno=None):
        x = x + self.atn(self.n1(x), relleno)
        return x + self.mlp(self.n2(x))
