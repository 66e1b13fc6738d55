"""Ejercicio 3: atención causal sin bibliotecas.

Todo son listas de listas. X tiene n filas (palabras) con m números cada una; Wq y Wk
tienen m filas y d columnas; Wv tiene m filas y e columnas.

La palabra i mira a las palabras 0..i (incluida ella misma). El peso de la palabra j es

    exp(q_i . k_j / raiz(d)) / suma_{r <= i} exp(q_i . k_r / raiz(d))

Devuelve (salida, pesos): salida n x e, pesos n x n con ceros a la derecha de la diagonal.

>>> s, p = atencion([[1.0], [3.0]], [[0.0]], [[0.0]], [[1.0]])
>>> s
[[1.0], [2.0]]
>>> p
[[1.0, 0.0], [0.5, 0.5]]
"""
from math import exp, sqrt


def por(A, B):
    columnas = list(zip(*B))
    return [[sum(a * b for a, b in zip(fila, col)) for col in columnas] for fila in A]


def reparto(numeros):
    mayor = max(numeros)
    e = [exp(x - mayor) for x in numeros]
    total = sum(e)
    return [x / total for x in e]


def atencion(X, Wq, Wk, Wv):
    Q, K, V = por(X, Wq), por(X, Wk), por(X, Wv)
    d = len(K[0])
    n = len(X)
    pesos = []
    for i in range(n):
        puntos = [sum(a * b for a, b in zip(Q[i], K[j])) / sqrt(d) for j in range(i + 1)]
        pesos.append(reparto(puntos) + [0.0] * (n - i - 1))
    return por(pesos, V), pesos
