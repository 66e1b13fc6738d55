"""Uebungsblatt 7: Zeichen-Decoder nur mit NumPy.

Eingaben sind (Zeichen, Merkmale), ein Text auf einmal.  Es gilt die Formel der Vorlesung:
    Attention(Q, K, V) = softmax(Q K^T / sqrt(d_k)) V,   kausal
"""
import numpy as np

rng = np.random.default_rng(42)


def stabiles_softmax(S):
    """zeilenweise"""
    M = np.max(S, axis=-1, keepdims=True)
    return np.exp(S - M) / np.sum(np.exp(S), axis=-1, keepdims=True)


def kausale_maske(n):
    """True: darf nicht gesehen werden (die Zukunft)"""
    return np.triu(np.ones((n, n)), k=1) == 1


def teile_koepfe(X, h):
    n, d = X.shape
    return X.reshape(n, h, d // h).transpose(1, 0, 2)


def verbinde_koepfe(X):
    h, n, d = X.shape
    return X.transpose(1, 0, 2).reshape(n, h * d)


def kopf_attention(X, gewichte, h):
    """X (n, d) -> (n, d); gewichte: Wq, Wk, Wv, Wo jeweils (d, d)"""
    Q = teile_koepfe(X @ gewichte["Wq"], h)
    K = teile_koepfe(X @ gewichte["Wk"], h)
    V = teile_koepfe(X @ gewichte["Wv"], h)
    d_k = K.shape[1]
    S = np.matmul(Q, K.transpose(0, 2, 1)) / np.sqrt(d_k)
    S[:, kausale_maske(len(X))] = -np.inf
    A = stabiles_softmax(S)
    return verbinde_koepfe(np.matmul(A, V)) @ gewichte["Wo"]


def layernorm(X, eps=1e-6):
    return (X - X.mean(-1, keepdims=True)) / np.sqrt(X.var(-1, keepdims=True) + eps)


def positionscode(n, d):
    p = np.arange(n)[:, None]
    w = 10000.0 ** (-np.arange(0, d, 2) / d)
    C = np.zeros((n, d))
    C[:, 0::2], C[:, 1::2] = np.sin(p * w), np.cos(p * w)
    return C


def neue_gewichte(d, d_ff):
    g = {k: rng.normal(0, d ** -0.5, (d, d)) for k in ("Wq", "Wk", "Wv", "Wo")}
    g["W1"], g["W2"] = rng.normal(0, d ** -0.5, (d, d_ff)), rng.normal(0, d_ff ** -0.5, (d_ff, d))
    return g


def decoder(ids, E, schichten, h):
    X = E[ids] + positionscode(len(ids), E.shape[1])
    for g in schichten:
        X = X + kopf_attention(layernorm(X), g, h)
        X = X + np.maximum(layernorm(X) @ g["W1"], 0) @ g["W2"]
    return layernorm(X) @ E.T


if __name__ == "__main__":
    E = rng.normal(size=(30, 16))
    print(decoder(np.array([3, 7, 7, 1, 9]), E, [neue_gewichte(16, 32)], h=4).shape)
