"""Memoria de recuperacion: lee los k vecinos de un indice y los mezcla con la consulta."""
import numpy as np


def softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


class Memoria:
    """Lectura por producto escalar escalado, softmax(q k^T / sqrt(d)) v.

    consulta  (B, L, D)
    claves    (B, M, D)  documentos recuperados;  valores (B, M, D)
    valido    (B, M) bool, True = documento encontrado; los False no cuentan (peso cero).
              Siempre hay al menos uno. None = todos validos.
    Devuelve  (B, L, D): compuerta * lectura + (1 - compuerta) * consulta, una compuerta por cabeza.
    """

    def __init__(self, D=16, cabezas=2, semilla=0):
        r = np.random.default_rng(semilla)
        self.c = cabezas
        self.Wq, self.Wk, self.Wv = (r.normal(size=(D, D)) / np.sqrt(D) for _ in range(3))
        self.g = r.normal(size=(cabezas, 1, 1))

    def partir(self, x):
        B, L, D = x.shape
        return x.reshape(B, L, self.c, D // self.c).transpose(0, 2, 1, 3)

    def __call__(self, consulta, claves, valores, valido=None):
        B, L, D = consulta.shape
        q = self.partir(consulta @ self.Wq)
        k = self.partir(claves @ self.Wk)
        v = self.partir(valores @ self.Wv)
        s = np.einsum("bcld,bcmd->bclm", q, k)
        if valido is not None:
            s = s + valido[:, None, None, :]
        leido = softmax(s) @ v
        g = 1.0 / (1.0 + np.exp(-self.g))
        y = g * leido + (1 - g) * self.partir(consulta)
        return y.transpose(0, 2, 1, 3).reshape(B, L, D)
