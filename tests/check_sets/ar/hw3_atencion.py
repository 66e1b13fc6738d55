"""
Tarea 3 - Procesamiento de Lenguaje Natural (otoño)
Parte B: atención multi-cabeza "a mano", con bucles, antes de pasar a PyTorch.

Se permite solo NumPy.  Convención del curso: las secuencias son matrices
(n, d_modelo), una frase por vez; `visible` es booleana (n_q, n_k) y vale True
donde la consulta SI puede mirar la clave.
"""
import numpy as np


def softmax_fila(fila):
    m = -np.inf
    for x in fila:
        if x > m:
            m = x
    e = np.zeros(len(fila))
    total = 0.0
    for j, x in enumerate(fila):
        e[j] = np.exp(x - m)
        total += e[j]
    return e / total


def una_cabeza(Q, K, V, visible=None):
    n_q, d = Q.shape
    n_k = K.shape[0]
    salida = np.zeros((n_q, V.shape[1]))
    pesos = np.zeros((n_q, n_k))
    for i in range(n_q):
        indices = [j for j in range(n_k) if visible is None or visible[i, j]]
        if not indices:
            continue                       # nada que mirar: la salida queda en cero
        puntajes = []
        for j in indices:
            s = 0.0
            for c in range(d):
                s += Q[i, c] * K[j, c]
            puntajes.append(s / d ** 0.5)
        a = softmax_fila(puntajes)
        for peso, j in zip(a, indices):
            pesos[i, j] = peso
            salida[i] += peso * V[j]
    return salida, pesos


class AtencionMultiCabeza:
    def __init__(self, d_modelo, cabezas, semilla=0):
        assert d_modelo % cabezas == 0
        rng = np.random.default_rng(semilla)
        self.h = cabezas
        self.d = d_modelo // cabezas
        lim = np.sqrt(3.0 / d_modelo)
        self.Wq, self.Wk, self.Wv, self.Wo = (
            rng.uniform(-lim, lim, (d_modelo, d_modelo)) for _ in range(4))

    def __call__(self, x, memoria=None, visible=None):
        """x: (n_q, d_modelo). memoria: (n_k, d_modelo) o None (auto-atención)."""
        if memoria is None:
            memoria = x
        Q, K, V = x @ self.Wq, memoria @ self.Wk, memoria @ self.Wv
        partes, mapas = [], []
        for c in range(self.h):
            corte = slice(c * self.d, (c + 1) * self.d)
            o, p = una_cabeza(Q[:, corte], K[:, corte], V[:, corte], visible)
            partes.append(o)
            mapas.append(p)
        return np.concatenate(partes, axis=1) @ self.Wo, np.stack(mapas)


def triangular(n):
    """Máscara para el decodificador: cada palabra ve las anteriores y a sí misma."""
    return np.tril(np.ones((n, n), dtype=bool))


if __name__ == "__main__":
    x = np.random.default_rng(1).normal(size=(5, 12))
    capa = AtencionMultiCabeza(12, 3)
    y, p = capa(x, visible=triangular(5))
    print(y.shape, p.sum(-1))
