"""Apuntes de clase: el codificador del Transformer paso a paso (numpy).

Cada frase es una matriz [palabras, d_modelo]; no hay lotes.  Para cada palabra
(fila) y cada cabeza, los pesos de atención sobre las palabras suman uno.
"""
import numpy as np


def softmax(x):
    e = np.exp(x - np.max(x))
    return e / np.sum(e)


def norma_capa(x, gamma, beta, eps=1e-6):
    media = x.mean(axis=1, keepdims=True)
    desv = x.std(axis=1, keepdims=True)
    return gamma * (x - media) / (desv + eps) + beta


def posiciones(n, d):
    """Codificación sinusoidal: seno en las columnas pares, coseno en las impares."""
    pos = np.arange(n)[:, None]
    angulo = pos / 10000 ** (np.arange(0, d, 2)[None, :] / d)
    tabla = np.zeros((n, d))
    tabla[:, 0::2] = np.sin(angulo)
    tabla[:, 1::2] = np.cos(angulo)
    return tabla


class Codificador:
    def __init__(self, d_modelo=16, cabezas=2, d_oculta=32, semilla=7):
        azar = np.random.default_rng(semilla)
        self.cabezas = cabezas
        self.d_cabeza = d_modelo // cabezas
        escala = 1 / np.sqrt(d_modelo)
        self.Wq = azar.normal(0, escala, (cabezas, d_modelo, self.d_cabeza))
        self.Wk = azar.normal(0, escala, (cabezas, d_modelo, self.d_cabeza))
        self.Wv = azar.normal(0, escala, (cabezas, d_modelo, self.d_cabeza))
        self.Wo = azar.normal(0, escala, (d_modelo, d_modelo))
        self.W1 = azar.normal(0, escala, (d_modelo, d_oculta))
        self.W2 = azar.normal(0, 1 / np.sqrt(d_oculta), (d_oculta, d_modelo))
        self.g1, self.b1 = np.ones(d_modelo), np.zeros(d_modelo)
        self.g2, self.b2 = np.ones(d_modelo), np.zeros(d_modelo)

    def una_cabeza(self, x, c):
        q, k, v = x @ self.Wq[c], x @ self.Wk[c], x @ self.Wv[c]
        puntajes = q @ k.T / np.sqrt(self.d_cabeza)
        pesos = softmax(puntajes)
        return pesos @ v

    def auto_atencion(self, x):
        salidas = [self.una_cabeza(x, c) for c in range(self.cabezas)]
        return np.concatenate(salidas, axis=1) @ self.Wo

    def __call__(self, x):
        """x: [palabras, d_modelo], embeddings sin posición."""
        x = x + posiciones(*x.shape)
        x = norma_capa(x + self.auto_atencion(x), self.g1, self.b1)
        oculta = np.maximum(0, x @ self.W1)
        return norma_capa(x + oculta @ self.W2, self.g2, self.b2)
