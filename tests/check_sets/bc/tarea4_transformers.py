# -*- coding: utf-8 -*-
"""
Tarea 4 - Procesamiento de Lenguaje Natural
Implementar la atención multi-cabeza desde cero con NumPy.

    Atencion(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V
"""
import numpy as np


def softmax(x):
    """softmax por filas (último eje)"""
    e = np.exp(x)
    return e / np.sum(e, axis=-1, keepdims=True)


def codificacion_posicional(largo, d):
    """PE[p, 2i] = sin(p / 10000^(2i/d)), PE[p, 2i+1] = cos(p / 10000^(2i/d))"""
    pos = np.arange(largo)[:, None]
    angulo = pos / np.power(10000.0, np.arange(0, d, 2) / d)
    pe = np.zeros((largo, d))
    pe[:, 0::2] = np.sin(angulo)
    pe[:, 1::2] = np.cos(angulo)
    return pe


class AtencionMultiCabeza:
    """Auto-atención. Entrada X: (lote, largo, d_modelo), salida de la misma forma.

    La salida concatena las cabezas de cada palabra y las proyecta con Wo.
    """

    def __init__(self, d_modelo, n_cabezas, semilla=0):
        rng = np.random.default_rng(semilla)
        self.h = n_cabezas
        self.dk = d_modelo // n_cabezas
        lim = np.sqrt(6.0 / (2 * d_modelo))
        self.Wq, self.Wk, self.Wv, self.Wo = rng.uniform(-lim, lim, (4, d_modelo, d_modelo))
        self.escala = self.dk ** -0.5

    def separar(self, X):
        b, n, _ = X.shape
        return X.reshape(b, n, self.h, self.dk).transpose(0, 2, 1, 3)

    def __call__(self, X):
        b, n, d = X.shape
        Q = self.separar(X @ self.Wq)
        K = self.separar(X @ self.Wk)
        V = self.separar(X @ self.Wv)
        puntajes = Q @ K.transpose(0, 1, 3, 2) / self.escala
        self.pesos = softmax(puntajes)
        salida = (self.pesos @ V).reshape(b, n, d)
        return salida @ self.Wo


if __name__ == "__main__":
    frase = "el gato duerme en la silla".split()
    X = np.random.default_rng(1).normal(size=(1, len(frase), 16)) + codificacion_posicional(len(frase), 16)
    capa = AtencionMultiCabeza(16, 4)
    print(capa(X).shape)
    print(np.round(capa.pesos[0, 0], 2))
