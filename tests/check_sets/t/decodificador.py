import torch
import torch.nn as nn
import torch.nn.functional as F


def mascara_causal(n):
    """Máscara aditiva (n, n): 0 donde se puede mirar, -inf en el futuro."""
    return torch.full((n, n), float("-inf")).triu(1)


class AtencionMultiCabeza(nn.Module):
    """Atención de varias cabezas.

    dimension: ancho del modelo
    cabezas:   número de cabezas
    """

    def __init__(self, dimension, cabezas):
        super().__init__()
        self.cabezas = cabezas
        self.consulta = nn.Linear(dimension, dimension)
        self.clave = nn.Linear(dimension, dimension)
        self.valor = nn.Linear(dimension, dimension)
        self.salida = nn.Linear(dimension, dimension)

    def separar(self, x):
        lote, largo, dim = x.shape
        return x.view(lote, largo, self.cabezas, dim // self.cabezas).transpose(1, 2)

    def forward(self, x, mascara=None):
        """x: (lote, largo, dimension); mascara: (largo, largo) aditiva, ver mascara_causal."""
        q = self.separar(self.consulta(x))
        k = self.separar(self.clave(x))
        v = self.separar(self.valor(x))
        if mascara is not None:
            mascara = mascara.to(torch.bool)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mascara)
        lote, _, largo, _ = y.shape
        return self.salida(y.transpose(1, 2).reshape(lote, largo, -1))


class Bloque(nn.Module):
    """Bloque de decodificador con normalización previa."""

    def __init__(self, dimension, cabezas):
        super().__init__()
        self.norma1 = nn.LayerNorm(dimension)
        self.norma2 = nn.LayerNorm(dimension)
        self.atencion = AtencionMultiCabeza(dimension, cabezas)
        self.red = nn.Sequential(nn.Linear(dimension, 4 * dimension), nn.GELU(), nn.Linear(4 * dimension, dimension))

    def forward(self, x):
        x = x + self.atencion(self.norma1(x), mascara_causal(x.size(1)))
        return x + self.red(self.norma2(x))
