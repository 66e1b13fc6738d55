"""Taller: construye tu propio GPT (día 2, el bloque de atención).

Usamos la misma disposición de pesos que GPT-2 para poder copiarlos: las filas de
c_attn.weight son primero todas las consultas q (cabeza 0, cabeza 1, ...), después
todas las claves k y al final todos los valores v.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class AtencionCausal(nn.Module):
    """Autoatención causal con varias cabezas.

    x (B, T, C) -> (B, T, C). La posición t ve solo 0..t. En cada cabeza:
    softmax(q k^T / sqrt(C / cabezas)) v. El dropout de los pesos actúa solo durante el
    entrenamiento (train()); en eval() el resultado es determinista.
    """

    def __init__(self, C, cabezas, p=0.1):
        super().__init__()
        self.cabezas, self.p = cabezas, p
        self.c_attn = nn.Linear(C, 3 * C)
        self.c_proj = nn.Linear(C, C)

    def forward(self, x):
        B, T, C = x.shape
        h = self.cabezas

        # (B, T, 3C) -> (B, h, T, 3d) -> tres de (B, h, T, d)
        paquete = self.c_attn(x).view(B, T, h, 3 * (C // h)).transpose(1, 2)
        q, k, v = paquete.chunk(3, dim=-1)

        puntos = q @ k.transpose(-2, -1) / math.sqrt(C // h)
        futuro = torch.triu(torch.ones(T, T, dtype=torch.bool, device=x.device), 1)
        puntos = puntos.masked_fill(futuro, float("-inf"))
        pesos = F.softmax(puntos, dim=-1)
        pesos = F.dropout(pesos, self.p)

        y = (pesos @ v).transpose(1, 2).reshape(B, T, C)
        return self.c_proj(y)


class Bloque(nn.Module):
    def __init__(self, C, cabezas):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(C), nn.LayerNorm(C)
        self.atencion = AtencionCausal(C, cabezas)
        self.mlp = nn.Sequential(nn.Linear(C, 4 * C), nn.GELU(), nn.Linear(4 * C, C))

    def forward(self, x):
        x = x + self.atencion(self.ln1(x))
        return x + self.mlp(self.ln2(x))
