"""Clase 7: varias cabezas, paso a paso (cuaderno del profesor).

Cada cabeza mira la frase a su manera: tiene sus propios pesos y los aplica a sus
propios valores. Para dibujar devolvemos además la media de los pesos.
"""
import math

import torch
from torch import nn


class VariasCabezas(nn.Module):
    """Atención con varias cabezas entre dos frases (o de una consigo misma).

    x (B, T, D)  la frase que pregunta
    m (B, S, D)  la frase que responde
    ocultar (B, S) bool, True = relleno, no se mira; None = se mira todo. Siempre queda
            alguna palabra visible.
    Devuelve (y (B, T, D), mapa (B, T, S)). La cabeza h calcula
    softmax(q_h k_h^T / sqrt(D / cabezas)) v_h con SUS pesos; las salidas se concatenan
    por orden de cabeza y pasan por la capa final. mapa es la media sobre las cabezas.
    """

    def __init__(self, D, cabezas):
        super().__init__()
        self.cabezas = cabezas
        self.pregunta = nn.Linear(D, D)
        self.clave = nn.Linear(D, D)
        self.valor = nn.Linear(D, D)
        self.final = nn.Linear(D, D)

    def repartir(self, x):
        return x.unflatten(-1, (self.cabezas, -1)).transpose(1, 2)

    def forward(self, x, m, ocultar=None):
        q = self.repartir(self.pregunta(x))
        k = self.repartir(self.clave(m))
        v = self.repartir(self.valor(m))

        s = torch.einsum("bhtd,bhsd->bhts", q, k) / math.sqrt(q.shape[-1])
        if ocultar is not None:
            s = s.masked_fill(ocultar[:, None, None, :], float("-inf"))
        pesos = s.softmax(-1)

        # para el dibujo
        pesos = pesos.mean(dim=1, keepdim=True)
        mapa = pesos.squeeze(1)

        y = torch.matmul(pesos, v)
        y = y.transpose(1, 2).flatten(2)
        return self.final(y), mapa
