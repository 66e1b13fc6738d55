"""Bloque de transformador en NumPy puro (práctica 4, asignatura de PLN).

Los pesos de cada cabeza están guardados por separado:
    Wq, Wk, Wv : (h, D, dk)      Wo : (h, dk, D)
    W1 : (D, F), b1 : (F,)       W2 : (F, D), b2 : (D,)
    g1, c1, g2, c2 : (D,)        ganancia y sesgo de las dos normalizaciones

bloque(x, w, causal=False)
    x : (B, N, D)  ->  (B, N, D)
    causal=True: la posición i sólo mira a las posiciones j <= i.

Arquitectura post-norm del artículo de 2017: LN(x + atención), LN(x + FFN).
Las puntuaciones se dividen por sqrt(dk).
"""
import numpy as np


def norma(x, g, c, eps=1e-5):
    m = x.mean(-1, keepdims=True)
    v = x.var(-1, keepdims=True)
    return g * (x - m) / np.sqrt(v + eps) + c


def softmax(z):
    # por filas: el último eje son las claves
    z = z - z.max(axis=-1, keepdims=True)
    np.exp(z, out=z)
    return z / z.sum(axis=-1, keepdims=True)


def atencion(x, w, causal):
    q = np.einsum("bnD,hDk->hbnk", x, w["Wq"])
    k = np.einsum("bnD,hDk->hbnk", x, w["Wk"])
    v = np.einsum("bnD,hDk->hbnk", x, w["Wv"])
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        n = s.shape[-1]
        i, j = np.triu_indices(n, 1)
        s[..., i, j] = -np.inf
    a = softmax(s)                                  # (h, B, N, N)
    # concatenar cabezas y multiplicar por Wo == sumar sobre las cabezas
    return np.einsum("hbnk,hkD->bnD", a @ v, w["Wo"])


def bloque(x, w, causal=False):
    x = norma(x + atencion(x, w, causal), w["g1"], w["c1"])
    f = np.maximum(x @ w["W1"] + w["b1"], 0.0) @ w["W2"] + w["b2"]
    return norma(x + f, w["g2"], w["c2"])
