"""Codificador de "Attention is all you need" en NumPy, práctica de la asignatura.

codificar(ids, P, cabezas)
    ids : (L,) enteros
    P   : dict con "E" (V, D), y "capas", lista de dicts "Wq" "Wk" "Wv" "Wo" (D, D),
          "W1" (D, F), "W2" (F, D)
    devuelve (L, D)

Fórmulas del artículo:
    PE(pos, 2i)   = sen(pos / 10000^(2i/D))
    PE(pos, 2i+1) = cos(pos / 10000^(2i/D)),       i = 0 .. D/2 - 1
    Atención(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V, con d_k = D / cabezas, en cada cabeza
La entrada es E[ids] * sqrt(D) + PE. Norma después de cada suma (sin ganancia ni sesgo).
"""
import numpy as np


def posiciones(L, D):
    pe = np.zeros((L, D))
    pos = np.arange(L)
    for i in range(0, D, 2):
        pe[:, i] = np.sin(pos / 10000 ** (2 * i / D))
        pe[:, i + 1] = np.cos(pos / 10000 ** (2 * i / D))
    return pe


def norma(x):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)


def softmax(z):
    z = np.exp(z - z.max(axis=-1, keepdims=True))
    return z / z.sum(axis=-1, keepdims=True)


def multicabeza(x, capa, cabezas):
    L, D = x.shape
    a_cabezas = lambda m: (x @ m).reshape(L, cabezas, -1).transpose(1, 0, 2)
    q, k, v = a_cabezas(capa["Wq"]), a_cabezas(capa["Wk"]), a_cabezas(capa["Wv"])
    puntos = q @ k.transpose(0, 2, 1) / np.sqrt(q.shape[0])
    y = softmax(puntos) @ v
    return y.transpose(1, 0, 2).reshape(L, D) @ capa["Wo"]


def codificar(ids, P, cabezas):
    D = P["E"].shape[1]
    x = P["E"][ids] * np.sqrt(D) + posiciones(len(ids), D)
    for capa in P["capas"]:
        x = norma(x + multicabeza(x, capa, cabezas))
        x = norma(x + np.maximum(x @ capa["W1"], 0) @ capa["W2"])
    return x
