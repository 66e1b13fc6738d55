"""Atenção entre resíduos de uma proteína, só com NumPy (material de aula).

Várias cabeças; `existe` diz quais resíduos são verdadeiros (1) e quais são
preenchimento (0).  Resíduos de preenchimento não recebem peso, e os pesos de cada
linha somam 1.  Produto escalar dividido pela raiz da largura da cabeça.
"""
import numpy as np


def softmax(z):
    e = np.exp(z - z.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def dividir(x, cabecas):
    """[B, L, D] -> [B, cabecas, L, D // cabecas]"""
    B, L, D = x.shape
    return x.reshape(B, L, cabecas, D // cabecas).transpose(0, 2, 1, 3)


def juntar(x):
    B, h, L, d = x.shape
    return x.transpose(0, 2, 1, 3).reshape(B, L, h * d)


class AtencaoResiduos:
    def __init__(self, dim=24, cabecas=4, semente=0):
        rng = np.random.default_rng(semente)
        self.cabecas = cabecas
        self.Wq, self.Wk, self.Wv, self.Wo = rng.normal(0, dim ** -0.5, (4, dim, dim))

    def __call__(self, x, existe=None):
        """x: [B, L, dim]; existe: [B, L] de 0/1 ou None.

        Devolve (saida [B, L, dim], pesos [B, cabecas, L, L]).
        """
        q = dividir(x @ self.Wq, self.cabecas)
        k = dividir(x @ self.Wk, self.cabecas)
        v = dividir(x @ self.Wv, self.cabecas)
        escala = np.sqrt(q.shape[2])
        pesos = softmax(q @ k.transpose(0, 1, 3, 2) / escala)
        if existe is not None:
            pesos = pesos * np.asarray(existe)[:, None, None, :]
        return juntar(pesos @ v) @ self.Wo, pesos


def codificar(sequencia, alfabeto="ACDEFGHIKLMNPQRSTVWY-"):
    """Letras -> vetores one-hot [L, 21]"""
    return np.eye(len(alfabeto))[[alfabeto.index(c) for c in sequencia]]


if __name__ == "__main__":
    seqs = ["MKTAYIAK", "GSHM----"]
    oh = np.stack([codificar(s) for s in seqs])
    emb = np.random.default_rng(1).normal(size=(21, 24))
    y, p = AtencaoResiduos()(oh @ emb, [[c != "-" for c in s] for s in seqs])
    print(y.shape, p.shape)
