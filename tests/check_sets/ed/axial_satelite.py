"""Bloque axial para clasificar cultivos en imágenes de satélite.

x      (B, C, H, W)  mapa de características
nubes  (B, H, W) bool, True = píxel tapado por una nube: nadie puede LEERLO.
       (El píxel tapado sí lee a los demás: así se rellena.)
salida (B, C, H, W)

Primero cada píxel lee los píxeles de su fila; luego, con el resultado, los de su
columna. Escala 1/sqrt(tamaño de cabeza). Si toda la fila (o columna) está tapada
la lectura es cero y queda sólo la conexión residual.
"""
import torch
from torch import nn


class LeerLinea(nn.Module):
    """Atención a lo largo del penúltimo eje: (..., L, C) con tapado (..., L)."""

    def __init__(self, canales, cabezas):
        super().__init__()
        self.cabezas = cabezas
        self.qkv = nn.Linear(canales, 3 * canales, bias=False)
        self.mezcla = nn.Linear(canales, canales, bias=False)

    def forward(self, x, tapado):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.cabezas, -1)).unbind(-3)   # ... L h d
        s = torch.einsum("...ihd,...jhd->...hij", q, k) / q.shape[-1] ** 0.5
        fuera = tapado[..., None, None, :]
        p = s.masked_fill(fuera, -torch.inf).softmax(-1).masked_fill(fuera, 0.0)
        return self.mezcla(torch.einsum("...hij,...jhd->...ihd", p, v).flatten(-2))


class BloqueAxial(nn.Module):
    def __init__(self, canales, cabezas=4):
        super().__init__()
        self.norma1 = nn.GroupNorm(1, canales)
        self.norma2 = nn.GroupNorm(1, canales)
        self.filas = LeerLinea(canales, cabezas)
        self.columnas = LeerLinea(canales, cabezas)
        self.punto = nn.Sequential(
            nn.GroupNorm(1, canales), nn.Conv2d(canales, 2 * canales, 1), nn.GELU(),
            nn.Conv2d(2 * canales, canales, 1),
        )

    def forward(self, x, nubes):
        f = self.norma1(x).permute(0, 2, 3, 1)                  # B H W C
        x = x + self.filas(f, nubes).permute(0, 3, 1, 2)
        c = self.norma2(x).permute(0, 3, 2, 1)                  # B W H C
        x = x + self.columnas(c, nubes.transpose(1, 2)).permute(0, 3, 2, 1)
        return x + self.punto(x)
