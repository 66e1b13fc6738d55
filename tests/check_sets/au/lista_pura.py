#!/usr/bin/env python3
"""Atenção em Python puro, sem numpy, para a aula de quinta-feira.

Matrizes são listas de linhas. Tudo é lento de propósito.
"""
import math
import random


def matmul(A, B):
    colunas = list(zip(*B))
    return [[sum(a * b for a, b in zip(linha, col)) for col in colunas] for linha in A]


def transposta(A):
    return [list(c) for c in zip(*A)]


def aleatoria(n, m, semente):
    r = random.Random(semente)
    return [[r.gauss(0, 1 / math.sqrt(n)) for _ in range(m)] for _ in range(n)]


def softmax(linha):
    m = max(linha)
    e = [math.exp(x - m) for x in linha]
    s = sum(e)
    return [x / s for x in e]


def uma_cabeca(Q, K, V, pode_ver=None):
    """pode_ver(i, j) diz se a posição i pode olhar a posição j."""
    raiz = math.sqrt(len(Q[0]))
    saida = []
    for i, q in enumerate(Q):
        visiveis = [j for j in range(len(K)) if pode_ver is None or pode_ver(i, j)]
        if not visiveis:
            saida.append([0.0] * len(V[0]))
            continue
        pesos = softmax([sum(a * b for a, b in zip(q, K[j])) / raiz for j in visiveis])
        saida.append([sum(p * V[j][c] for p, j in zip(pesos, visiveis)) for c in range(len(V[0]))])
    return saida


def multi_cabeca(X, Y, pesos, cabecas, causal=False):
    """Perguntas de X, chaves e valores de Y. pesos: dict Wq, Wk, Wv, Wo (entrada x saída).

    Com causal, X são as últimas len(X) posições de Y.
    """
    Q, K, V = matmul(X, pesos["Wq"]), matmul(Y, pesos["Wk"]), matmul(Y, pesos["Wv"])
    d = len(Q[0]) // cabecas
    atraso = len(Y) - len(X)
    ver = (lambda i, j: j <= i + atraso) if causal else None
    junto = [[] for _ in X]
    for h in range(cabecas):
        fatia = slice(h * d, (h + 1) * d)
        parte = uma_cabeca([r[fatia] for r in Q], [r[fatia] for r in K], [r[fatia] for r in V], ver)
        for linha, p in zip(junto, parte):
            linha.extend(p)
    return matmul(junto, pesos["Wo"])


def norma(X, eps=1e-5):
    out = []
    for r in X:
        m = sum(r) / len(r)
        v = sum((x - m) ** 2 for x in r) / len(r)
        out.append([(x - m) / math.sqrt(v + eps) for x in r])
    return out


def bloco(X, pesos, cabecas):
    A = multi_cabeca(norma(X), norma(X), pesos, cabecas, causal=True)
    X = [[a + b for a, b in zip(r, s)] for r, s in zip(X, A)]
    F = matmul([[max(0.0, v) for v in r] for r in matmul(norma(X), pesos["W1"])], pesos["W2"])
    return [[a + b for a, b in zip(r, s)] for r, s in zip(X, F)]


def demo(n=5, d=8, cabecas=2):
    p = {k: aleatoria(d, d, i) for i, k in enumerate(("Wq", "Wk", "Wv", "Wo"))}
    p["W1"], p["W2"] = aleatoria(d, 4 * d, 10), aleatoria(4 * d, d, 11)
    for linha in bloco(aleatoria(n, d, 99), p, cabecas):
        print(" ".join(f"{v:+.3f}" for v in linha))


if __name__ == "__main__":
    demo()
