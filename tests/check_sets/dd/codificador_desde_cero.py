"""Codificador transformer desde cero para el seminario de PLN."""
import math
import torch
import torch.nn as nn


def posiciones(largo, d):
    """Tabla (largo, d): PE[pos, 2i] = sin(pos / 10000^(2i/d)), PE[pos, 2i+1] = cos(mismo ángulo)"""
    pos = torch.arange(largo).unsqueeze(1)
    i = torch.arange(0, d, 2)
    div = torch.exp(-math.log(10000.0) * 2 * i / d)
    pe = torch.zeros(largo, d)
    pe[:, 0::2] = torch.sin(pos * div)
    pe[:, 1::2] = torch.cos(pos * div)
    return pe


class Codificador(nn.Module):
    def __init__(self, d=32, cabezas=4, largo_max=50):
        super().__init__()
        self.cabezas = cabezas
        self.register_buffer("pe", posiciones(largo_max, d))
        self.Q, self.K, self.V, self.O = (nn.Linear(d, d) for _ in range(4))
        self.norma1, self.norma2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.red = nn.Sequential(nn.Linear(d, 2 * d), nn.ReLU(), nn.Linear(2 * d, d))

    def por_cabezas(self, t):
        B, L, d = t.shape
        return t.view(B, self.cabezas, L, d // self.cabezas)

    def forward(self, x):
        """x: (B, L, d) vectores de palabras -> (B, L, d)"""
        x = x + self.pe[: x.size(1)]
        q, k, v = self.por_cabezas(self.Q(x)), self.por_cabezas(self.K(x)), self.por_cabezas(self.V(x))
        pesos = torch.softmax(q @ k.mT / math.sqrt(q.size(-1)), dim=-1)
        y = (pesos @ v).transpose(1, 2).reshape(x.shape)
        x = self.norma1(x + self.O(y))
        return self.norma2(x + self.red(x))
