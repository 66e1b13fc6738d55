"""Orquesta: cada sección escucha a las demás antes de tocar.

Atención multi-cabeza con producto escalar escalado (1/sqrt(tamaño de la
cabeza)) sobre los músicos; las "secciones" son las cabezas.

    partitura (B, M, C)  B ensayos, M músicos, C rasgos
    callado   (B, M)     bool, True = el músico no toca y nadie lo escucha;
                         en cada ensayo toca al menos uno
    devuelve  (B, M, C)

Cada ensayo es independiente de los otros. Las salidas de las secciones de un
mismo músico se concatenan y pasan por `director`.
"""
import torch
from torch import nn


class Orquesta(nn.Module):
    def __init__(self, C=18, secciones=3):
        super().__init__()
        self.secciones = secciones
        self.oido = nn.Linear(C, C)
        self.voz = nn.Linear(C, C)
        self.nota = nn.Linear(C, C)
        self.director = nn.Linear(C, C)

    def plegar(self, t):
        B, M, C = t.shape
        t = t.view(B, M, self.secciones, C // self.secciones)
        return t.transpose(1, 2).reshape(B * self.secciones, M, -1)

    def forward(self, partitura, callado=None):
        B, M, C = partitura.shape
        q = self.plegar(self.oido(partitura))
        k = self.plegar(self.voz(partitura))
        v = self.plegar(self.nota(partitura))
        mezcla = torch.bmm(q, k.transpose(1, 2))
        if callado is not None:
            silencio = callado.repeat_interleave(self.secciones, dim=0)
            mezcla = mezcla.masked_fill(silencio.unsqueeze(1), float("-inf"))
        volumen = torch.softmax(mezcla, dim=-1)
        sonido = torch.bmm(volumen, v)
        sonido = sonido.view(self.secciones, B, M, C // self.secciones)
        sonido = sonido.permute(1, 2, 0, 3).reshape(B, M, C)
        return self.director(sonido)
