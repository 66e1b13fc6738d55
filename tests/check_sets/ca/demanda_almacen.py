"""Previsión de demanda por almacén con atención sobre el historial (solo NumPy).

Cada día futuro pregunta al historial de días observados.  ``observado`` vale True en
los días con datos; los días sin datos (inventario cerrado, sensores caídos) no deben
contar en la media ponderada.
"""
import numpy as np


def _lineal(rng, n_in, n_out):
    lim = np.sqrt(6.0 / (n_in + n_out))
    return rng.uniform(-lim, lim, size=(n_in, n_out)), np.zeros(n_out)


class AtencionHistorial:
    def __init__(self, dim=12, cabezas=3, semilla=0):
        rng = np.random.default_rng(semilla)
        assert dim % cabezas == 0
        self.cabezas = cabezas
        self.wq, self.bq = _lineal(rng, dim, dim)
        self.wk, self.bk = _lineal(rng, dim, dim)
        self.wv, self.bv = _lineal(rng, dim, dim)
        self.wo, self.bo = _lineal(rng, dim, dim)

    def _partir(self, x):
        b, t, d = x.shape
        return x.reshape(b, t, self.cabezas, d // self.cabezas).transpose(0, 2, 1, 3)

    def pesos(self, q, k, observado):
        puntos = np.matmul(q, np.swapaxes(k, -1, -2))
        if observado is not None:
            puntos = np.where(observado[:, None, None, :], puntos, -10.0)
        puntos = puntos / np.sqrt(q.shape[-1])
        puntos = puntos - puntos.max(axis=-1, keepdims=True)
        e = np.exp(puntos)
        return e / e.sum(axis=-1, keepdims=True)

    def __call__(self, futuro, historial, observado=None):
        q = self._partir(futuro @ self.wq + self.bq)
        k = self._partir(historial @ self.wk + self.bk)
        v = self._partir(historial @ self.wv + self.bv)
        y = self.pesos(q, k, observado) @ v
        y = y.transpose(0, 2, 1, 3).reshape(futuro.shape)
        return y @ self.wo + self.bo


class Pronostico:
    """Atención + capa lineal; devuelve unidades por día."""

    def __init__(self, dim=12, semilla=0):
        self.atencion = AtencionHistorial(dim, semilla=semilla)
        self.w = np.random.default_rng(semilla + 1).normal(size=dim) / np.sqrt(dim)

    def predecir(self, futuro, historial, observado=None):
        h = futuro + self.atencion(futuro, historial, observado)
        return np.maximum(h @ self.w, 0.0)
