# Previsão de demanda diária com um "transformer de bolso", só NumPy (inferência).
# Os pesos vêm do notebook de treino, num dicionário.
import numpy as np


def normaliza_serie(y):
    mu, dp = y.mean(), y.std() + 1e-8
    return (y - mu) / dp, mu, dp


def janelas(y, tam):
    return np.stack([y[i:i + tam] for i in range(len(y) - tam + 1)])


def calendario(n, inicio=0):
    """Seno e cosseno do dia da semana e do ano, shape (n, 4)."""
    t = np.arange(inicio, inicio + n)
    return np.stack([np.sin(2 * np.pi * t / 7), np.cos(2 * np.pi * t / 7),
                     np.sin(2 * np.pi * t / 365.25), np.cos(2 * np.pi * t / 365.25)], axis=1)


def softmax(x, eixo=-1):
    m = np.max(x, axis=eixo, keepdims=True)
    return np.exp(x - m) / np.sum(np.exp(x), axis=eixo, keepdims=True)


def atencao_temporal(x, pesos, n_cabecas):
    """Autoatenção causal: o dia t vê somente os dias 0..t.

    x: (lote, dias, dim); devolve (lote, dias, dim) e os pesos (lote, cabeças, dias, dias)
    """
    lote, dias, dim = x.shape
    dc = dim // n_cabecas

    def separa(z):
        return z.reshape(lote, dias, n_cabecas, dc).transpose(0, 2, 1, 3)

    q = separa(x @ pesos["Wq"])
    k = separa(x @ pesos["Wk"])
    v = separa(x @ pesos["Wv"])
    notas = q @ k.transpose(0, 1, 3, 2) / np.sqrt(dc)
    futuro = np.triu(np.ones((dias, dias), dtype=bool), k=1)
    notas = np.where(futuro, -1e9, notas)
    a = softmax(notas)
    y = (a @ v).transpose(0, 2, 1, 3).reshape(lote, dias, dim)
    return y @ pesos["Wo"], a


def camada(x, pesos, n_cabecas):
    y, _ = atencao_temporal(x, pesos, n_cabecas)
    x = x + y
    h = np.maximum(0, x @ pesos["W1"] + pesos["b1"])
    return x + h @ pesos["W2"] + pesos["b2"]


def prever(y, modelo, horizonte=7, tam=56, n_cabecas=4):
    """Prevê `horizonte` dias, um de cada vez."""
    z, mu, dp = normaliza_serie(np.asarray(y, dtype=float))
    z = list(z)
    for _ in range(horizonte):
        n = min(tam, len(z))
        ult = np.array(z[-n:])[:, None]
        entrada = np.concatenate([ult, calendario(n, len(z) - n)], axis=1)
        x = (entrada @ modelo["We"])[None]
        for p in modelo["camadas"]:
            x = camada(x, p, n_cabecas)
        z.append(float(x[0, -1] @ modelo["w_saida"]))
    return np.array(z[-horizonte:]) * dp + mu


def wmape(real, prev):
    return np.abs(real - prev).sum() / np.abs(real).sum()
