"""Mirada global sobre un mapa de rasgos (canales primero), varias cabezas.

Entrada ``mapa``: (lote, canales, alto, ancho); misma forma a la salida.  Cada punto
mira todos los puntos del mapa, por separado en cada cabeza; al final las cabezas de un
punto se ponen una junto a otra en los canales de ese mismo punto.
"""
import torch
import torch.nn as nn


class MiradaGlobal(nn.Module):
    def __init__(self, canales=16, cabezas=4):
        super().__init__()
        self.cabezas = cabezas
        self.ancho_cabeza = canales // cabezas
        self.norma = nn.GroupNorm(cabezas, canales)
        self.pregunta = nn.Conv2d(canales, canales, 1)
        self.clave = nn.Conv2d(canales, canales, 1)
        self.valor = nn.Conv2d(canales, canales, 1)
        self.salida = nn.Linear(canales, canales)

    def repartir(self, t):
        """(lote, canales, alto, ancho) -> (lote, cabezas, puntos, ancho_cabeza)"""
        return t.flatten(2).unflatten(1, (self.cabezas, self.ancho_cabeza)).transpose(2, 3)

    def forward(self, mapa):
        lote, canales, alto, ancho = mapa.shape
        x = self.norma(mapa)
        p = self.repartir(self.pregunta(x))
        c = self.repartir(self.clave(x))
        v = self.repartir(self.valor(x))
        parecido = torch.matmul(p, c.transpose(-2, -1)) * self.ancho_cabeza ** -0.5
        peso = parecido.softmax(dim=-1)
        junto = torch.matmul(peso, v)
        junto = junto.reshape(lote, alto * ancho, canales)
        junto = self.salida(junto)
        return mapa + junto.transpose(1, 2).reshape(lote, canales, alto, ancho)
