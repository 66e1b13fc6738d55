# -*- coding: utf-8 -*-
# Apuntes de la asignatura: la atención paso a paso
import numpy as np


def softmax(x, eje=-1):
    x = x - x.max(axis=eje, keepdims=True)
    ex = np.exp(x)
    return ex / ex.sum(axis=eje, keepdims=True)


def atencion(Q, K, V, mascara=None):
    """
    Q: (lote, m, d)   K: (lote, n, d)   V: (lote, n, dv)
    mascara: (lote, n), vale 1 en las palabras reales y 0 en el relleno
    """
    d = K.shape[1]
    puntuaciones = np.matmul(Q, K.transpose(0, 2, 1)) / np.sqrt(d)
    if mascara is not None:
        puntuaciones = puntuaciones + mascara[:, None, :] * -1e9
    pesos = softmax(puntuaciones)
    return np.matmul(pesos, V), pesos


class CapaAtencion:
    def __init__(self, dim, semilla=0):
        azar = np.random.default_rng(semilla)
        limite = np.sqrt(6.0 / (dim + dim))
        self.Wq, self.Wk, self.Wv = azar.uniform(-limite, limite, (3, dim, dim))

    def __call__(self, x, mascara=None):
        salida, self.pesos = atencion(x @ self.Wq, x @ self.Wk, x @ self.Wv, mascara)
        return x + salida
