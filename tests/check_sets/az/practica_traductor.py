# -*- coding: utf-8 -*-
"""
Práctica 5: codificador de un traductor automático (solo NumPy)
Asignatura: Procesamiento del Lenguaje Natural. Grupo 12.

La longitud de cada frase va en `largos`; lo que pasa de esa longitud es relleno
y no debe influir en nada.
"""
import numpy as np

RELLENO = 0


def codificacion_posicional(n_pos, d_modelo):
    """PE(p, 2i) = sen(p / 10000^(2i/d)),  PE(p, 2i+1) = cos(p / 10000^(2i/d))"""
    tabla = np.zeros((n_pos, d_modelo))
    p = np.arange(n_pos)[:, None]
    dos_i = np.arange(0, d_modelo, 2)
    angulo = p / np.power(10000.0, dos_i / d_modelo)
    tabla[:, 0::2] = np.sin(angulo)
    tabla[:, 1::2] = np.cos(angulo)
    return tabla


def incrustar(ids, matriz):
    d = matriz.shape[1]
    return matriz[ids] * np.sqrt(d) + codificacion_posicional(ids.shape[1], d)[None]


def softmax_estable(z, eje):
    z = z - np.max(z, axis=eje, keepdims=True)
    ez = np.exp(z)
    return ez / np.sum(ez, axis=eje, keepdims=True)


def atencion_multicabeza(x, memoria, pesos, n_cabezas, largos=None, causal=False):
    """
    x        (lote, n, d)   de donde salen las consultas
    memoria  (lote, m, d)   de donde salen claves y valores
    pesos    dict con 'Q', 'C', 'V', 'S' de forma (d, d)
    largos   (lote,)        número de palabras verdaderas de cada frase de `memoria`
    Devuelve (salida, pesos_de_atencion) con formas (lote, n, d) y (cabezas, lote, n, m).
    """
    lote, n, d = x.shape
    m = memoria.shape[1]
    dk = d // n_cabezas
    prohibido = np.zeros((lote, n, m), dtype=bool)
    if largos is not None:
        prohibido |= np.arange(m)[None, None, :] >= np.asarray(largos)[:, None, None]
    if causal:
        prohibido |= np.arange(m)[None, None, :] > np.arange(n)[None, :, None]

    mapas, partes = [], []
    for c in range(n_cabezas):
        trozo = slice(c * dk, (c + 1) * dk)
        q = np.matmul(x, pesos["Q"][:, trozo])
        k = np.matmul(memoria, pesos["C"][:, trozo])
        v = np.matmul(memoria, pesos["V"][:, trozo])
        afinidad = np.einsum("bnd,bmd->bnm", q, k) * dk ** -0.5
        afinidad[prohibido] = np.finfo(afinidad.dtype).min
        a = softmax_estable(afinidad, eje=2)
        mapas.append(a)
        partes.append(np.einsum("bnm,bmd->bnd", a, v))
    salida = np.concatenate(partes, axis=-1) @ pesos["S"]
    return salida, np.stack(mapas)


def norma(x, eps=1e-6):
    return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + eps)


def capa_codificadora(x, capa, n_cabezas, largos):
    z, _ = atencion_multicabeza(x, x, capa["atencion"], n_cabezas, largos)
    x = norma(x + z)
    oculta = np.maximum(0, x @ capa["W1"] + capa["b1"])
    return norma(x + oculta @ capa["W2"] + capa["b2"])


def iniciar_capa(d, oculta, azar):
    def m(a, b):
        return azar.normal(0, a ** -0.5, (a, b))
    return {
        "atencion": {letra: m(d, d) for letra in "QCVS"},
        "W1": m(d, oculta), "b1": np.zeros(oculta),
        "W2": m(oculta, d), "b2": np.zeros(d),
    }


def codificar(ids, modelo, n_cabezas):
    largos = (ids != RELLENO).sum(1)
    x = incrustar(ids, modelo["palabras"])
    for capa in modelo["capas"]:
        x = capa_codificadora(x, capa, n_cabezas, largos)
    return x, largos


if __name__ == "__main__":
    azar = np.random.RandomState(7)
    modelo = {"palabras": azar.normal(0, .1, (30, 16)),
              "capas": [iniciar_capa(16, 32, azar) for _ in range(2)]}
    frases = np.array([[4, 8, 2, 9, 1], [5, 3, 0, 0, 0]])
    y, largos = codificar(frases, modelo, n_cabezas=4)
    print(y.shape, largos)
