"""
Transformer encoder "desde cero" con numpy -- codigo del post del blog.

Todo va en (secuencia, d_modelo); el lote se recorre con un bucle.
"""
import numpy as np


def softmax(x):
    e_x = np.exp(x - np.max(x))
    return e_x / e_x.sum()


def norma_capa(x, gamma, beta, eps=1e-6):
    media = x.mean(axis=-1, keepdims=True)
    desv = x.std(axis=-1, keepdims=True)
    return gamma * (x - media) / (desv + eps) + beta


def codificacion_posicional(largo, d_modelo):
    pos = np.arange(largo)[:, None]
    i = np.arange(d_modelo)[None, :]
    angulo = pos / np.power(10000.0, (2 * (i // 2)) / d_modelo)
    pe = np.zeros((largo, d_modelo))
    pe[:, 0::2] = np.sin(angulo[:, 0::2])
    pe[:, 1::2] = np.cos(angulo[:, 1::2])
    return pe


class AtencionMultiCabeza:
    def __init__(self, d_modelo, cabezas, rng):
        assert d_modelo % cabezas == 0
        self.cabezas = cabezas
        self.d_k = d_modelo // cabezas
        lim = np.sqrt(6.0 / (2 * d_modelo))
        self.Wq, self.Wk, self.Wv, self.Wo = (rng.uniform(-lim, lim, (d_modelo, d_modelo)) for _ in range(4))

    def cabeza(self, Q, K, V):
        puntaje = Q @ K.T / np.sqrt(self.d_k)
        pesos = softmax(puntaje)
        return pesos @ V, pesos

    def __call__(self, x):
        Q, K, V = x @ self.Wq, x @ self.Wk, x @ self.Wv
        salidas, mapas = [], []
        for c in range(self.cabezas):
            r = slice(c * self.d_k, (c + 1) * self.d_k)
            s, p = self.cabeza(Q[:, r], K[:, r], V[:, r])
            salidas.append(s)
            mapas.append(p)
        return np.concatenate(salidas, axis=-1) @ self.Wo, np.stack(mapas)


class Codificador:
    def __init__(self, vocab=100, d_modelo=16, cabezas=4, capas=2, semilla=0):
        rng = np.random.default_rng(semilla)
        self.d_modelo = d_modelo
        self.emb = rng.normal(0, d_modelo ** -0.5, (vocab, d_modelo))
        self.capas = []
        for _ in range(capas):
            self.capas.append({
                "att": AtencionMultiCabeza(d_modelo, cabezas, rng),
                "W1": rng.normal(0, 0.1, (d_modelo, 4 * d_modelo)), "b1": np.zeros(4 * d_modelo),
                "W2": rng.normal(0, 0.1, (4 * d_modelo, d_modelo)), "b2": np.zeros(d_modelo),
                "g1": np.ones(d_modelo), "n1": np.zeros(d_modelo),
                "g2": np.ones(d_modelo), "n2": np.zeros(d_modelo),
            })

    def una(self, frase):
        x = self.emb[frase] * np.sqrt(self.d_modelo)
        x = x + codificacion_posicional(len(frase), self.d_modelo)
        for c in self.capas:
            a, _ = c["att"](x)
            x = norma_capa(x + a, c["g1"], c["n1"])
            f = np.maximum(0, x @ c["W1"] + c["b1"]) @ c["W2"] + c["b2"]
            x = norma_capa(x + f, c["g2"], c["n2"])
        return x

    def __call__(self, frases):
        return [self.una(np.asarray(f)) for f in frases]
