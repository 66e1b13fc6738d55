"""Autoatención con NumPy para la guía del museo.

Recibe las obras de una sala (una fila por obra) y devuelve, para cada obra, una
mezcla de las demás según su parecido. Práctica 3 de la asignatura.

    Q = X Wq,  K = X Wk,  V = X Wv
    A = softmax(Q K^T / sqrt(d_k))
    salida = A V
"""
import numpy as np


def softmax(puntos):
    """Softmax por filas, estable (se resta el máximo de cada fila)."""
    puntos = puntos - puntos.max(axis=-1, keepdims=True)
    e = np.exp(puntos)
    return e / e.sum()


def autoatencion(obras, Wq, Wk, Wv, ocultas=None):
    """
    obras   : (n, d) matriz de características
    Wq, Wk  : (d, d_k)
    Wv      : (d, d_v)
    ocultas : (n,) bool opcional, True = obra en préstamo, no debe mirarse (nunca todas)

    Devuelve (salida, pesos), de formas (n, d_v) y (n, n). Cada fila de pesos es una
    distribución de probabilidad sobre las obras.
    """
    Q = obras @ Wq
    K = obras @ Wk
    V = obras @ Wv

    puntos = Q @ K.T / np.sqrt(K.shape[-1])
    if ocultas is not None:
        puntos = np.where(ocultas[None, :], -np.inf, puntos)
    pesos = softmax(puntos)
    return pesos @ V, pesos


def demo(n=6, d=8, d_k=5, d_v=4, semilla=0):
    rng = np.random.default_rng(semilla)
    X = rng.normal(size=(n, d))
    Wq, Wk = rng.normal(size=(2, d, d_k))
    Wv = rng.normal(size=(d, d_v))
    return autoatencion(X, Wq, Wk, Wv)


if __name__ == "__main__":
    salida, pesos = demo()
    print(salida.shape, pesos.shape)
