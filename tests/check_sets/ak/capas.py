"""redes.capas -- capas de una pequeña biblioteca de enseñanza (solo numpy).

Cada cabeza calcula softmax(Q K^T / sqrt(d)) V, con d el tamaño de la cabeza; cada fila de
pesos pertenece a una posición de la consulta. La máscara vale 1 donde se puede mirar y 0 donde
está prohibido.
"""
import numpy as np


class Capa:
    def parametros(self):
        for v in vars(self).values():
            if isinstance(v, np.ndarray):
                yield v
            elif isinstance(v, Capa):
                yield from v.parametros()

    def cuenta(self):
        return sum(p.size for p in self.parametros())


class Densa(Capa):
    def __init__(self, entrada, salida, semilla=0):
        g = np.random.default_rng(semilla)
        limite = np.sqrt(6.0 / (entrada + salida))
        self.W = g.uniform(-limite, limite, (entrada, salida))
        self.b = np.zeros(salida)

    def __call__(self, x):
        return x @ self.W + self.b


class NormaCapa(Capa):
    def __init__(self, dim, eps=1e-5):
        self.gamma, self.beta, self.eps = np.ones(dim), np.zeros(dim), eps

    def __call__(self, x):
        z = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + self.eps)
        return self.gamma * z + self.beta


def softmax(z):
    e = np.exp(z - np.max(z))
    return e / np.sum(e)


def mascara_causal(n):
    return np.tril(np.ones((n, n)))


class AtencionMultiCabeza(Capa):
    """Una frase a la vez: x [L, dim], memoria [S, dim] o None (atención propia)."""

    def __init__(self, dim, cabezas, semilla=0):
        assert dim % cabezas == 0
        self.cabezas = cabezas
        self.Wq = Densa(dim, dim, semilla)
        self.Wk = Densa(dim, dim, semilla + 1)
        self.Wv = Densa(dim, dim, semilla + 2)
        self.Wo = Densa(dim, dim, semilla + 3)
        self.pesos = None

    def partir(self, x):
        return x.reshape(x.shape[0], self.cabezas, -1).transpose(1, 0, 2)

    def una_cabeza(self, Q, K, V, mascara=None):
        dk = K.shape[0]
        puntos = Q @ K.T / np.sqrt(dk)
        if mascara is not None:
            puntos = np.where(mascara == 0, 1e-9, puntos)
        a = softmax(puntos)
        return a @ V, a

    def __call__(self, x, memoria=None, mascara=None):
        memoria = x if memoria is None else memoria
        Q, K, V = self.partir(self.Wq(x)), self.partir(self.Wk(memoria)), self.partir(self.Wv(memoria))
        salidas, self.pesos = [], []
        for h in range(self.cabezas):
            y, a = self.una_cabeza(Q[h], K[h], V[h], mascara)
            salidas.append(y)
            self.pesos.append(a)
        return self.Wo(np.concatenate(salidas, axis=-1))


class Bloque(Capa):
    def __init__(self, dim, cabezas, semilla=0):
        self.atencion = AtencionMultiCabeza(dim, cabezas, semilla)
        self.n1, self.n2 = NormaCapa(dim), NormaCapa(dim)
        self.f1 = Densa(dim, 4 * dim, semilla + 10)
        self.f2 = Densa(4 * dim, dim, semilla + 11)

    def __call__(self, x, mascara=None):
        x = x + self.atencion(self.n1(x), mascara=mascara)
        return x + self.f2(np.maximum(self.f1(self.n2(x)), 0))


class Lenguaje(Capa):
    """Modelo de letras: tabla, posiciones senoidales, bloques, salida atada a la tabla."""

    def __init__(self, letras, dim=32, cabezas=4, bloques=2):
        self.indice = {c: i for i, c in enumerate(letras)}
        self.tabla = np.random.default_rng(7).normal(0, 0.1, (len(letras), dim))
        self.bloques = [Bloque(dim, cabezas, 100 * i) for i in range(bloques)]
        self.dim = dim

    def posiciones(self, n):
        p = np.arange(n)[:, None] / 10000 ** (np.arange(0, self.dim, 2) / self.dim)[None]
        pe = np.zeros((n, self.dim))
        pe[:, 0::2], pe[:, 1::2] = np.sin(p), np.cos(p)
        return pe

    def __call__(self, texto):
        ids = [self.indice[c] for c in texto]
        x = self.tabla[ids] + self.posiciones(len(ids))
        for b in self.bloques:
            x = b(x, mascara_causal(len(ids)))
        return x @ self.tabla.T


if __name__ == "__main__":
    m = Lenguaje("abcdefghijklmnñopqrstuvwxyz ")
    print(m("hola mundo").shape)
