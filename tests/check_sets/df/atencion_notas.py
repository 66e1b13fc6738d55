"""Cuaderno de clase: el codificador de "Attention is all you need" con numpy."""
import numpy as np


def softmax(s):
    return np.exp(s - s.max(axis=-1, keepdims=True)) / np.sum(np.exp(s), axis=-1, keepdims=True)


def norma(x):
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-6)


def capa_codificador(x, Wq, Wk, Wv, Wo, W1, W2, cabezas=2):
    """x (lote, n, d). Wq, Wk, Wv, Wo (d, d): pesos de consulta, clave, valor y salida."""
    lote, n, d = x.shape
    dk = d // cabezas
    W = np.concatenate([Wq, Wk, Wv], axis=1)      # un solo producto para los tres
    q, v, k = np.split(x @ W, 3, axis=-1)

    def partir(z):
        return z.reshape(lote, n, cabezas, dk).transpose(0, 2, 1, 3)

    q, k, v = partir(q), partir(k), partir(v)
    pesos = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(dk))
    z = (pesos @ v).transpose(0, 2, 1, 3).reshape(lote, n, d)
    x = norma(x + z @ Wo)
    return norma(x + np.maximum(x @ W1, 0) @ W2)
