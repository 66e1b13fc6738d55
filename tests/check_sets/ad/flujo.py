"""Consulta de una memoria grande por trozos, sin tener la matriz entera."""
import numpy as np


def _trozos(n, paso):
    for a in range(0, n, paso):
        yield slice(a, min(a + paso, n))


def leer_memoria(pregunta, claves, datos, paso=64):
    """
    pregunta (m, d), claves (n, d), datos (n, c), n >= 1  ->  (m, c)

    Igual a softmax(pregunta claves^T / sqrt(d)) datos, pero recorre la memoria
    una sola vez en trozos de `paso` filas.
    """
    m, d = pregunta.shape
    techo = np.full((m, 1), -np.inf)
    suma = np.zeros((m, 1))
    acumulado = np.zeros((m, datos.shape[1]))

    for t in _trozos(len(claves), paso):
        s = pregunta @ claves[t].T / np.sqrt(d)
        nuevo = np.maximum(techo, s.max(1, keepdims=True))
        ajuste = np.exp(techo - nuevo)
        e = np.exp(s - nuevo)
        suma = suma * ajuste + e.sum(1, keepdims=True)
        acumulado = acumulado * ajuste + e @ datos[t]
        techo = nuevo

    return acumulado / suma


if __name__ == "__main__":
    r = np.random.default_rng(3)
    print(leer_memoria(r.normal(size=(5, 16)), r.normal(size=(1000, 16)), r.normal(size=(1000, 7))).shape)
