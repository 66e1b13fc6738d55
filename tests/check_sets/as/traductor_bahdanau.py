"""Traductor minimo con atencion aditiva (Bahdanau et al., 2015), solo NumPy.

    e_j = v^T tanh(W s + U h_j),   a = softmax(e),   c = sum_j a_j h_j

`mascara` es [lote, largo], 1 en palabras reales y 0 en relleno; el relleno no
debe recibir peso.
"""
import numpy as np


def sigmoide(x):
    return 1.0 / (1.0 + np.exp(-x))


class CeldaGRU:
    def __init__(self, entrada, oculto, rng):
        e = 1.0 / np.sqrt(oculto)
        self.W = rng.uniform(-e, e, (entrada, 3 * oculto))
        self.U = rng.uniform(-e, e, (oculto, 3 * oculto))
        self.b = np.zeros(3 * oculto)
        self.n = oculto

    def __call__(self, x, h):
        gx, gh = x @ self.W + self.b, h @ self.U
        z = sigmoide(gx[:, : self.n] + gh[:, : self.n])
        r = sigmoide(gx[:, self.n : 2 * self.n] + gh[:, self.n : 2 * self.n])
        c = np.tanh(gx[:, 2 * self.n :] + r * gh[:, 2 * self.n :])
        return (1 - z) * h + z * c


class AtencionAditiva:
    def __init__(self, dim_estado, dim_memoria, dim_alineacion, rng):
        g = lambda *s: rng.normal(0, s[0] ** -0.5, s)
        self.W = g(dim_estado, dim_alineacion)
        self.U = g(dim_memoria, dim_alineacion)
        self.v = g(dim_alineacion)

    def preparar(self, memoria):
        """La parte de la memoria no cambia entre pasos: se calcula una vez."""
        return memoria @ self.U

    def __call__(self, estado, memoria, proyectada, mascara):
        suma = (estado @ self.W)[:, None, :] + proyectada
        puntajes = suma @ self.v
        puntajes = puntajes * mascara
        pesos = np.exp(puntajes - puntajes.max(axis=1, keepdims=True))
        pesos = pesos / pesos.sum(axis=1, keepdims=True)
        contexto = np.einsum("bl,bld->bd", pesos, memoria)
        return contexto, pesos


class Traductor:
    def __init__(self, vocab_src, vocab_tgt, dim=32, semilla=0):
        rng = np.random.default_rng(semilla)
        self.emb_src = rng.normal(0, 0.5, (vocab_src, dim))
        self.emb_tgt = rng.normal(0, 0.5, (vocab_tgt, dim))
        self.codificador = CeldaGRU(dim, dim, rng)
        self.decodificador = CeldaGRU(2 * dim, dim, rng)
        self.atencion = AtencionAditiva(dim, dim, dim, rng)
        self.salida = rng.normal(0, dim ** -0.5, (2 * dim, vocab_tgt))
        self.dim = dim

    def codificar(self, fuente, mascara):
        h = np.zeros((fuente.shape[0], self.dim))
        estados = []
        for t in range(fuente.shape[1]):
            nuevo = self.codificador(self.emb_src[fuente[:, t]], h)
            h = np.where(mascara[:, t : t + 1] > 0, nuevo, h)
            estados.append(h)
        return np.stack(estados, axis=1), h

    def traducir(self, fuente, mascara, inicio, pasos):
        memoria, s = self.codificar(fuente, mascara)
        proy = self.atencion.preparar(memoria)
        y = np.full(fuente.shape[0], inicio)
        salida, mapas = [], []
        for _ in range(pasos):
            c, a = self.atencion(s, memoria, proy, mascara)
            s = self.decodificador(np.concatenate([self.emb_tgt[y], c], axis=1), s)
            y = (np.concatenate([s, c], axis=1) @ self.salida).argmax(axis=1)
            salida.append(y)
            mapas.append(a)
        return np.stack(salida, 1), np.stack(mapas, 1)
