"""ALiBi paso a paso (cuaderno 6 del curso de transformers).

En vez de sumar vectores de posición, restamos a cada puntuación una cantidad
proporcional a la distancia: puntuación(i, j) = q_i.k_j / sqrt(d) - m_h * (i - j).
"""
import math

import torch


def pendientes(n_cabezas):
    """Pendientes m_h del artículo, lista de n_cabezas números.

    Si n es potencia de 2: 2^(-8/n), 2^(-16/n), ..., 2^(-8).
    Si no: las de la potencia de 2 inferior p, y luego las de 2p en posiciones
    impares (1ª, 3ª, 5ª...) hasta completar.
    """
    p = 2 ** int(math.floor(math.log2(n_cabezas)))
    base = [2 ** (-8 * h / p) for h in range(1, p + 1)]
    if p == n_cabezas:
        return base
    extra = [2 ** (-8 * h / (2 * p)) for h in range(1, 2 * p + 1, 2)]
    return base + extra[: n_cabezas - p]


def atencion_alibi(q, k, v):
    """Atención causal con sesgo ALiBi.

    q, k, v : (B, H, T, d)
    Devuelve (B, H, T, d). La fila i solo mira columnas j <= i.
    """
    B, H, T, d = q.shape
    m = torch.tensor(pendientes(H), dtype=q.dtype, device=q.device).view(H, 1, 1)

    # j - i es <= 0 en el pasado: cuanto más lejos, más negativo
    pos = torch.arange(T, device=q.device)
    distancia = pos[None, :] - pos[:, None]
    sesgo = m * distancia

    puntos = q @ k.transpose(-2, -1) / math.sqrt(d) + sesgo
    puntos = puntos.masked_fill(distancia > 0, float("-inf"))
    return puntos.softmax(dim=-1) @ v


if __name__ == "__main__":
    print(pendientes(8), pendientes(6))
    x = torch.randn(3, 2, 6, 5, 4)
    print(atencion_alibi(*x).shape)
