"""Atención sobre las visitas de un paciente (historia clínica electrónica)."""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F


class AtencionVisitas(nn.Module):
    """
    visitas : (lote, n, tam)
    huecos  : (lote, n) bool, True = hueco de relleno que no se mira; cada
              paciente tiene al menos una visita real
    Devuelve (lote, n, tam). Bidireccional, `cabezas` cabezas, con las salidas
    de las cabezas concatenadas por visita antes de la última capa.
    """

    def __init__(self, tam=24, cabezas=4, olvido=0.1):
        super().__init__()
        self.cabezas, self.parte = cabezas, tam // cabezas
        self.pregunta = nn.Linear(tam, tam)
        self.clave = nn.Linear(tam, tam)
        self.valor = nn.Linear(tam, tam)
        self.union = nn.Linear(tam, tam)
        self.olvido = olvido

    def _cabezas(self, capa, x):
        lote, n, _ = x.shape
        return capa(x).view(lote, n, self.cabezas, self.parte).transpose(1, 2)

    def forward(self, visitas, huecos=None):
        lote, n, tam = visitas.shape
        p = self._cabezas(self.pregunta, visitas)
        c = self._cabezas(self.clave, visitas)
        v = self._cabezas(self.valor, visitas)

        puntos = p @ c.transpose(-2, -1) / math.sqrt(self.parte)
        if huecos is not None:
            puntos = puntos.masked_fill(huecos[:, None, None], float("-inf"))
        pesos = F.softmax(puntos, dim=-1)
        pesos = F.dropout(pesos, self.olvido, training=self.training)

        mezcla = pesos @ v
        mezcla = mezcla.contiguous().view(lote, n, tam)
        return self.union(mezcla)
