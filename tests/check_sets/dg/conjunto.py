import math

import torch
import torch.nn as nn


class BloqueMAB(nn.Module):
    def __init__(self, dim, cabezas):
        super().__init__()
        self.cabezas = cabezas
        self.pq, self.pk, self.pv = (nn.Linear(dim, dim) for _ in range(3))
        self.ff = nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, dim))
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)

    def partir(self, t):
        b, n, c = t.shape
        return t.view(b, n, self.cabezas, c // self.cabezas).transpose(1, 2)

    def forward(self, X, Y, fuera=None):
        """X (b, n, c) pregunta a Y (b, m, c); fuera (b, m): True = elemento de relleno."""
        q, k, v = self.partir(self.pq(X)), self.partir(self.pk(Y)), self.partir(self.pv(Y))
        s = q @ k.mT / math.sqrt(q.shape[-1])
        if fuera is not None:
            s = s.masked_fill(fuera[:, None, None], torch.finfo(s.dtype).min)
        o = (s.softmax(-1) @ v).transpose(1, 2).flatten(2)
        H = self.n1(X + o)
        return self.n2(H + self.ff(H))


class Resumen(nn.Module):
    """Conjunto (b, m, c) -> k vectores (b, k, c); no depende del orden."""

    def __init__(self, dim=32, cabezas=4, k=2, inductores=5):
        super().__init__()
        self.I = nn.Parameter(torch.randn(1, inductores, dim))
        self.S = nn.Parameter(torch.randn(1, k, dim))
        self.baja, self.sube, self.pma = (BloqueMAB(dim, cabezas) for _ in range(3))

    def forward(self, Y, fuera=None):
        b = Y.size(0)
        h = self.baja(self.I.expand(b, -1, -1), Y, fuera)
        Z = self.sube(Y, h)
        return self.pma(self.S.expand(b, -1, -1), Z, fuera)
