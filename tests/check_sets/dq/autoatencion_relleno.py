"""Ejercicio 3 (con solución): autoatención con palabras de relleno.

Las frases del lote tienen distinta longitud y se completan con relleno. Una
palabra de relleno debe recibir peso exactamente cero.
"""
import numpy as np


def autoatencion(X, Wq, Wk, Wv, mascara):
    """Atención de producto escalar: softmax(Q K^T / sqrt(d)) V.

    X       : (B, n, D) vectores de las palabras
    Wq, Wk  : (D, d)    d = tamaño de las claves
    Wv      : (D, e)
    mascara : (B, n) bool, True = palabra real, False = relleno (peso cero en todas
              las filas). Cada frase tiene al menos una palabra real.
    Devuelve (Z (B, n, e), P (B, n, n)); las filas de P suman 1.
    """
    Q, K, V = X @ Wq, X @ Wk, X @ Wv

    # 1) puntuaciones, normalizadas por la raíz del tamaño
    tam = K.shape[1]
    S = np.einsum("bqd,bkd->bqk", Q, K) / np.sqrt(tam)

    # 2) aplicamos la máscara a las columnas
    S = S + mascara[:, np.newaxis, :]

    # 3) softmax por filas
    S = S - S.max(axis=-1, keepdims=True)
    P = np.exp(S)
    P = P / P.sum(axis=-1, keepdims=True)

    # 4) mezcla de valores
    return P @ V, P


if __name__ == "__main__":
    azar = np.random.default_rng(10)
    X = azar.normal(size=(2, 5, 8))
    Wq, Wk, Wv = azar.normal(size=(3, 8, 4))
    m = np.array([[True] * 5, [True, True, True, False, False]])
    Z, P = autoatencion(X, Wq, Wk, Wv, m)
    print(Z.shape, P.sum(-1))
