"""Previsao de rendimento da soja por municipio (IBGE + clima semanal).

O modelo resume as semanas da safra por atencao e depois faz uma regressao.
Todas as funcoes sao em numpy, para rodar no servidor da cooperativa.
"""
import csv
import numpy as np

VARIAVEIS = ["chuva", "tmax", "tmin", "radiacao", "ndvi"]


def ler_clima(caminho):
    """Devolve {municipio: matriz [semanas, variaveis]}."""
    dados = {}
    with open(caminho, newline="", encoding="utf8") as f:
        for linha in csv.DictReader(f):
            dados.setdefault(linha["municipio"], []).append([float(linha[v]) for v in VARIAVEIS])
    return {m: np.array(x) for m, x in dados.items()}


def empilhar(series):
    """Completa com zeros; a mascara vale 1 nas semanas que existem."""
    maior = max(len(s) for s in series)
    X = np.zeros((len(series), maior, len(VARIAVEIS)))
    M = np.zeros((len(series), maior))
    for i, s in enumerate(series):
        X[i, :len(s)] = s
        M[i, :len(s)] = 1
    return X, M


def padronizar(X, media, desvio):
    return (X - media) / (desvio + 1e-8)


class AtencaoSemanal:
    """Pesos por semana (somam 1 nas semanas validas) e soma ponderada."""

    def __init__(self, d_in, d_h, rng):
        self.W = rng.normal(0, 1 / np.sqrt(d_in), (d_in, d_h))
        self.b = np.zeros(d_h)
        self.u = rng.normal(0, 1, d_h)
        self.V = rng.normal(0, 1 / np.sqrt(d_in), (d_in, d_h))

    def pesos(self, X, M):
        nota = np.tanh(X @ self.W + self.b) @ self.u
        nota = np.where(M > 0, nota, -1e9)
        maximo = nota.max(axis=1, keepdims=True)
        num = np.exp(nota - maximo)
        return num / np.exp(nota).sum(axis=1, keepdims=True)

    def __call__(self, X, M):
        a = self.pesos(X, M)
        return np.einsum("ns,nsh->nh", a, X @ self.V), a


class Regressor:
    def __init__(self, d_in, d_h, semente=7):
        rng = np.random.default_rng(semente)
        self.at = AtencaoSemanal(d_in, d_h, rng)
        self.w = rng.normal(0, 1 / np.sqrt(d_h), d_h)
        self.b = 0.0

    def prever(self, X, M):
        z, _ = self.at(X, M)
        return np.maximum(z, 0) @ self.w + self.b

    def ajustar_saida(self, X, M, y, lam=1.0):
        z, _ = self.at(X, M)
        z = np.c_[np.maximum(z, 0), np.ones(len(z))]
        sol = np.linalg.solve(z.T @ z + lam * np.eye(z.shape[1]), z.T @ y)
        self.w, self.b = sol[:-1], sol[-1]


def erro_medio(y, p):
    return float(np.abs(y - p).mean())
