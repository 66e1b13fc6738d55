"""Solucion del ejercicio 4 (curso de PLN): capa de decodificador con atencion cruzada.

Solo la parte cruzada y la red densa; la auto-atencion esta en el ejercicio 3.
En modo eval() la salida es determinista.
"""
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class CapaCruzada(nn.Module):
    def __init__(self, d_modelo, n_cabezas, d_ff, p=0.1):
        super().__init__()
        self.nc = n_cabezas
        self.dk = d_modelo // n_cabezas
        self.p = p
        self.wq = nn.Linear(d_modelo, d_modelo)
        self.wk = nn.Linear(d_modelo, d_modelo)
        self.wv = nn.Linear(d_modelo, d_modelo)
        self.wo = nn.Linear(d_modelo, d_modelo)
        self.norma1 = nn.LayerNorm(d_modelo)
        self.norma2 = nn.LayerNorm(d_modelo)
        self.densa = nn.Sequential(nn.Linear(d_modelo, d_ff), nn.ReLU(), nn.Linear(d_ff, d_modelo))

    def cabezas(self, t):
        b, l, _ = t.shape
        return t.view(b, l, self.nc, self.dk).transpose(1, 2)

    def forward(self, destino, fuente, valido):
        """
        destino: (B, T, d_modelo), fuente: (B, S, d_modelo)
        valido:  (B, S) bool, True = token real de la fuente; los demas no reciben peso
        devuelve (B, T, d_modelo)
        """
        b, t, d = destino.shape
        q = self.cabezas(self.wq(destino))
        k = self.cabezas(self.wk(fuente))
        v = self.cabezas(self.wv(fuente))
        puntos = q @ k.transpose(-1, -2) / math.sqrt(self.dk)
        puntos = puntos + valido[:, None, None, :]
        pesos = F.softmax(puntos, dim=-1)
        pesos = F.dropout(pesos, self.p)
        z = pesos @ v
        z = z.contiguous().view(b, t, d)
        x = self.norma1(destino + self.wo(z))
        return self.norma2(x + self.densa(x))
