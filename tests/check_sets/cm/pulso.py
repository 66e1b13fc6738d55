"""Detección de arritmias: codificador de ventanas de ECG."""
import torch
import torch.nn as nn


class Pulso(nn.Module):
    """señal: (lote, tiempo, canales) -> logits (lote, clases).

    Cada registro del lote se procesa por separado: los instantes de un mismo registro se
    atienden entre sí y luego se promedian.
    """

    def __init__(self, canales=2, ancho=16, cabezas=4, capas=2, clases=3, largo=64):
        super().__init__()
        self.entrada = nn.Conv1d(canales, ancho, 5, padding=2)
        self.pos = nn.Parameter(torch.randn(1, largo, ancho) * 0.1)
        self.atencion = nn.ModuleList(
            nn.MultiheadAttention(ancho, cabezas) for _ in range(capas)
        )
        self.denso = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(ancho), nn.Linear(ancho, 32), nn.GELU(), nn.Linear(32, ancho))
            for _ in range(capas)
        )
        self.norma = nn.ModuleList(nn.LayerNorm(ancho) for _ in range(capas))
        self.salida = nn.Linear(ancho, clases)

    def forward(self, senal):
        x = self.entrada(senal.transpose(1, 2)).transpose(1, 2)
        x = x + self.pos[:, : x.shape[1]]
        for norma, at, denso in zip(self.norma, self.atencion, self.denso):
            z = norma(x)
            x = x + at(z, z, z, need_weights=False)[0]
            x = x + denso(x)
        return self.salida(x.mean(dim=1))
