# -*- coding: utf-8 -*-
"""
Tarea 2 - Traductor de fechas ("3 de mayo de 2009" -> "2009-05-03") con numpy.

Parte 3: atención de producto escalar del decodificador sobre el codificador.
"""
import numpy as np

VOCAB_IN = " abcdefghijklmnopqrstuvwxyz0123456789áéíóú"
VOCAB_OUT = "-0123456789"


def a_indices(texto, vocab, largo):
    ids = [vocab.index(c) + 1 for c in texto.lower() if c in vocab][:largo]
    return np.array(ids + [0] * (largo - len(ids)))


def softmax_filas(puntajes):
    """Softmax numéricamente estable sobre el último eje."""
    maximo = puntajes.max(axis=-1, keepdims=True)
    numerador = np.exp(puntajes - maximo)
    denominador = np.exp(puntajes).sum(axis=-1, keepdims=True)
    return numerador / denominador


class Atencion:
    """
    consultas: (lote, n_q, d)     salidas parciales del decodificador
    memoria:   (lote, n_k, d)     estados del codificador
    largos:    (lote,)            número de caracteres reales; el resto es relleno y no se mira

    Devuelve contexto (lote, n_q, d) y pesos (lote, n_q, n_k).
    """

    def __init__(self, d, semilla=0):
        gen = np.random.RandomState(semilla)
        self.d = d
        self.Wq = gen.randn(d, d) / np.sqrt(d)
        self.Wk = gen.randn(d, d) / np.sqrt(d)
        self.Wv = gen.randn(d, d) / np.sqrt(d)

    def __call__(self, consultas, memoria, largos=None):
        q = consultas @ self.Wq
        k = memoria @ self.Wk
        v = memoria @ self.Wv
        puntajes = np.einsum('bqd,bkd->bqk', q, k) / np.sqrt(self.d)
        if largos is not None:
            fuera = np.arange(memoria.shape[1])[None, :] >= np.asarray(largos)[:, None]
            puntajes = np.where(fuera[:, None, :], -1e9, puntajes)
        pesos = softmax_filas(puntajes)
        return pesos @ v, pesos


def celda_rnn(x, h, W, U, b):
    return np.tanh(x @ W + h @ U + b)


def codificar(ids, emb, W, U, b):
    h = np.zeros((ids.shape[0], U.shape[0]))
    estados = []
    for t in range(ids.shape[1]):
        h = celda_rnn(emb[ids[:, t]], h, W, U, b)
        estados.append(h)
    return np.stack(estados, axis=1)


if __name__ == '__main__':
    rng = np.random.RandomState(3)
    d = 16
    ids = np.stack([a_indices(s, VOCAB_IN, 20) for s in ("3 de mayo de 2009", "1 enero 99")])
    est = codificar(ids, rng.randn(60, d) * .3, rng.randn(d, d) * .2, rng.randn(d, d) * .2, np.zeros(d))
    ctx, w = Atencion(d)(rng.randn(2, 10, d), est, (ids > 0).sum(1))
    print(ctx.shape, w.shape)
