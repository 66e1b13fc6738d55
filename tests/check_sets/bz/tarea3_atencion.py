"""Tarea 3 - Redes profundas, Universidad de Chile.

Atención multi-cabeza con paso hacia adelante y hacia atrás escritos a mano en NumPy.

    Y = concat_h( softmax(Q_h K_h^T / sqrt(d_h)) V_h ) W_o

La máscara es booleana de forma (T, S): True = la consulta t puede mirar la clave s.
Las filas sin ninguna clave visible no están permitidas.
"""
import numpy as np


class AtencionMultiCabeza:
    def __init__(self, dim, cabezas, semilla=0):
        rng = np.random.default_rng(semilla)
        self.h = cabezas
        self.d = dim // cabezas
        lim = np.sqrt(6.0 / (2 * dim))
        self.W = {n: rng.uniform(-lim, lim, (dim, dim)) for n in ("q", "k", "v", "o")}
        self.grad = {}
        self._mem = None

    def _separar(self, x):
        n, t, _ = x.shape
        return x.reshape(n, t, self.h, self.d).transpose(0, 2, 1, 3)

    def _juntar(self, x):
        n, _, t, _ = x.shape
        return x.transpose(0, 2, 1, 3).reshape(n, t, self.h * self.d)

    def forward(self, consulta, clave, valor, mascara=None):
        q = self._separar(consulta @ self.W["q"])
        k = self._separar(clave @ self.W["k"])
        v = self._separar(valor @ self.W["v"])
        s = np.matmul(q, k.swapaxes(-1, -2)) / np.sqrt(self.d)
        if mascara is not None:
            s = np.where(mascara, s, -np.inf)
        s = s - s.max(axis=-1, keepdims=True)
        p = np.exp(s)
        p /= p.sum(axis=-1, keepdims=True)
        c = self._juntar(p @ v)
        self._mem = (consulta, clave, valor, q, k, v, p, c)
        return c @ self.W["o"]

    def backward(self, dY):
        """Devuelve los gradientes de consulta, clave y valor; los de W quedan en self.grad."""
        consulta, clave, valor, q, k, v, p, c = self._mem
        self.grad["o"] = np.einsum("nti,ntj->ij", c, dY)
        dc = self._separar(dY @ self.W["o"].T)
        dp = dc @ v.swapaxes(-1, -2)
        dv = p.swapaxes(-1, -2) @ dc
        ds = p * (dp - (dp * p).sum(axis=-1, keepdims=True)) / np.sqrt(self.d)
        dq, dk, dv = self._juntar(ds @ k), self._juntar(ds.swapaxes(-1, -2) @ q), self._juntar(dv)
        salida = []
        for nombre, x, g in (("q", consulta, dq), ("k", clave, dk), ("v", valor, dv)):
            self.grad[nombre] = np.einsum("nti,ntj->ij", x, g)
            salida.append(g @ self.W[nombre].T)
        return salida


if __name__ == "__main__":
    capa = AtencionMultiCabeza(12, 3)
    x = np.random.default_rng(1).normal(size=(2, 5, 12))
    y = capa.forward(x, x, x, np.tril(np.ones((5, 5), bool)))
    print(y.shape, [g.shape for g in capa.backward(np.ones_like(y))])
