"""Atenção feita à mão, número por número, para a aula da sexta-feira.

As listas são convertidas para float; no fim devolvemos um np.ndarray.
"""
import math
import numpy as np


def contas(perguntas, chaves, valores, visivel=None):
    """perguntas: n x d, chaves: m x d, valores: m x e (listas ou arrays).

    visivel[i][j] falso = a pergunta i não pode olhar a chave j.
    Uma pergunta que não pode olhar nada recebe zeros.
    """
    d = len(perguntas[0])
    e = len(valores[0])
    saida = []
    for i, p in enumerate(perguntas):
        notas = []
        for j, c in enumerate(chaves):
            if visivel is not None and not visivel[i][j]:
                continue
            soma = 0.0
            for t in range(d):
                soma += float(p[t]) * float(c[t])
            notas.append((j, soma / math.sqrt(d)))
        linha = [0.0] * e
        if notas:
            topo = max(n for _, n in notas)
            total = 0.0
            for j, n in notas:
                w = math.exp(n - topo)
                total += w
                for t in range(e):
                    linha[t] += w * float(valores[j][t])
            linha = [x / total for x in linha]
        saida.append(linha)
    return np.array(saida)
