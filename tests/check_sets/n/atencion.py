# Red de atención para el trabajo final
import numpy as np


class AtencionMultiCabeza:
    """Atención multi-cabeza en NumPy puro.

    entrada: (lote, pasos, dim); relleno: (lote, pasos) booleano, True donde hay relleno (esas claves no se miran).
    """

    def __init__(self, dim=8, cabezas=2, semilla=1):
        gen = np.random.RandomState(semilla)
        self.cabezas = cabezas
        self.Wc = gen.randn(dim, dim) * 0.3
        self.Wk = gen.randn(dim, dim) * 0.3
        self.Wv = gen.randn(dim, dim) * 0.3
        self.Ws = gen.randn(dim, dim) * 0.3

    def partir(self, m):
        lote, pasos, dim = m.shape
        return np.moveaxis(m.reshape(lote, pasos, self.cabezas, dim // self.cabezas), 2, 1)

    def __call__(self, entrada, relleno):
        consulta = self.partir(entrada @ self.Wc)
        clave = self.partir(entrada @ self.Wk)
        valor = self.partir(entrada @ self.Wv)
        puntaje = np.einsum("lcid,lcjd->lcij", consulta, clave) / np.sqrt(clave.shape[-1])
        puntaje[np.broadcast_to(relleno[:, None, None, :], puntaje.shape)] = -np.inf
        puntaje -= np.max(puntaje, axis=-1, keepdims=True)
        pesos = np.exp(puntaje)
        pesos /= np.sum(pesos, axis=-1, keepdims=True)
        salida = np.moveaxis(pesos @ valor, 1, 2).reshape(entrada.shape)
        return salida @ self.Ws
