import numpy as np


def leer_campos(consulta, campos, valido, pesos, cabezas):
    """Search: each word of the query reads the fields of one product.

    consulta (B, Q, D), campos (B, K, D), valido (B, K) True for filled fields,
    pesos: dict with 'q', 'k', 'v', 'o', all (D, D). Returns (B, Q, D).
    A product whose fields are all empty gives zeros before 'o'.
    """
    B, Q, D = consulta.shape
    K = campos.shape[1]
    d = D // cabezas
    q = (consulta @ pesos["q"]).reshape(B, Q, cabezas, d) / np.sqrt(d)
    k = (campos @ pesos["k"]).reshape(B, K, cabezas, d)
    v = (campos @ pesos["v"]).reshape(B, K, cabezas, d)

    afin = np.einsum("bkhd,bqhd->bkqh", k, q)
    hay = valido[:, :, None, None]
    afin = np.where(hay, afin, -np.inf)
    tope = afin.max(axis=1, keepdims=True)
    tope = np.where(np.isfinite(tope), tope, 0.0)
    e = np.exp(afin - tope)
    suma = e.sum(axis=1, keepdims=True)
    reparto = e / np.where(suma > 0, suma, 1.0)

    leido = np.einsum("bkqh,bkhd->bqhd", reparto, v).reshape(B, Q, D)
    return leido @ pesos["o"]
