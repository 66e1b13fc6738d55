import numpy as np


# HW3 part b: multi-head attention, numpy only
def atencion(X, Y, pesos, cabezas=2):
    """X (B, T, D) consulta a Y (B, S, D); pesos: dict con Wq, Wk, Wv, Wo de (D, D)"""
    B, T, D = X.shape
    S = Y.shape[1]
    d = D // cabezas
    q = (X @ pesos["Wq"]).reshape(B, T, cabezas, d).transpose(0, 2, 1, 3)
    k = (Y @ pesos["Wk"]).reshape(B, S, cabezas, d).transpose(0, 2, 1, 3)
    v = (Y @ pesos["Wv"]).reshape(B, S, cabezas, d).transpose(0, 2, 1, 3)
    # softmax
    a = np.exp(q @ k.swapaxes(-1, -2) / np.sqrt(d))
    a = a / np.sum(a)
    o = (a @ v).transpose(0, 2, 1, 3).reshape(B, T, D)
    return o @ pesos["Wo"]
