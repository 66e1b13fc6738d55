"""Transcripcion dialectal: de fonos de una variedad a fonos de otra (Bahdanau, NumPy puro).

decodifica(p, fuente, largos, previos)
    fuente   (N, S, E)   fonos de origen ya codificados, rellenados con ceros al final
    largos   (N,) int    numero de fonos reales de cada palabra (>= 1)
    previos  (N, T, M)   vectores de los fonos de destino ya emitidos (forzados)
    p        dict: Ws (H, A), Wf (E, A), va (A,)       atencion aditiva
                   Wx (M + E, H), Wh (H, H), bh (H,)   celda recurrente simple
devuelve
    estados  (N, T, H)
    alfas    (N, T, S)   suman 1 sobre los fonos reales; cero en el relleno

En cada paso, con el estado anterior s (al principio ceros):
    nota_j = va . tanh(s Ws + fuente_j Wf);  alfa = softmax sobre los fonos reales
    c = suma_j alfa_j fuente_j;  s = tanh([previo; c] Wx + s Wh + bh)
"""
import numpy as np


def reparte(notas, validos):
    notas = np.where(validos, notas, -np.inf)
    notas = notas - notas.max(axis=1, keepdims=True)
    peso = np.exp(notas)
    return peso / peso.sum(axis=1, keepdims=True)


def decodifica(p, fuente, largos, previos):
    N, S, E = fuente.shape
    validos = np.arange(S)[None, :] < np.asarray(largos)[:, None]
    lado_fuente = fuente @ p["Wf"]                       # no cambia con el tiempo
    s = np.zeros((N, p["Wh"].shape[0]))
    estados, alfas = [], []
    for t in range(previos.shape[1]):
        suma = lado_fuente + (s @ p["Ws"])[:, None, :]   # (N, S, A)
        alfa = reparte(np.tanh(suma) @ p["va"], validos)
        c = np.einsum("ns,nse->ne", alfa, fuente)
        entrada = np.concatenate([previos[:, t], c], axis=1)
        s = np.tanh(entrada @ p["Wx"] + s @ p["Wh"] + p["bh"])
        estados.append(s)
        alfas.append(alfa)
    return np.stack(estados, 1), np.stack(alfas, 1)
