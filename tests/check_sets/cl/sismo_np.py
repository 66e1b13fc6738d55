"""Atención entre estaciones sísmicas, en NumPy puro (para la placa sin torch)."""
import numpy as np


def softmax(x, eje=-1):
    x = x - np.max(x, axis=eje, keepdims=True)
    e = np.exp(x)
    return e / np.sum(e, axis=eje, keepdims=True)


class AtencionEstaciones:
    """Atención multicabeza con producto escalar escalado (Vaswani et al., 2017).

    x: (lote, estaciones, canales). `activa`: (lote, estaciones), True si la estación
    transmite; las inactivas no aportan nada. Siempre transmite alguna.
    """

    def __init__(self, canales=24, cabezas=2, semilla=0):
        r = np.random.default_rng(semilla)
        self.cabezas = cabezas
        self.wq, self.wk, self.wv, self.wo = (
            r.normal(0, 1 / np.sqrt(canales), (canales, canales)) for _ in range(4)
        )

    def _cabezas(self, y):
        b, n, c = y.shape
        return y.reshape(b, n, self.cabezas, c // self.cabezas).transpose(0, 2, 1, 3)

    def __call__(self, x, activa=None):
        b, n, c = x.shape
        q, k, v = self._cabezas(x @ self.wq), self._cabezas(x @ self.wk), self._cabezas(x @ self.wv)
        puntos = q @ k.transpose(0, 1, 3, 2)
        puntos = puntos / np.sqrt(k.shape[-2])
        if activa is not None:
            puntos = np.where(activa[:, None, None, :], puntos, -np.inf)
        pesos = softmax(puntos)
        y = (pesos @ v).transpose(0, 2, 1, 3).reshape(b, n, c)
        return y @ self.wo


def epicentro(x, coords, activa=None, capa=None):
    """Media de las coordenadas (estaciones, 2), pesada por la energía tras la atención."""
    capa = capa or AtencionEstaciones(x.shape[-1])
    y = x + capa(x, activa)
    energia = (y ** 2).sum(-1)
    if activa is not None:
        energia = energia * activa
    return (energia[..., None] * coords).sum(1) / energia.sum(1, keepdims=True)
