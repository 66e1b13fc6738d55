import numpy as np


class AtencaoCausal:
    def __init__(self, dimensao=8, semente=1):
        sorteio = np.random.default_rng(semente)
        self.pesos = {c: sorteio.standard_normal((dimensao, dimensao)) * 0.4 for c in ("consulta", "chave", "valor")}

    def __call__(self, frase):
        """frase: (lote, letras, dimensao).  Cada letra olha para si mesma e para as anteriores."""
        consulta, chave, valor = (frase @ self.pesos[c] for c in ("consulta", "chave", "valor"))
        pontos = consulta @ chave.transpose(0, 2, 1) / np.sqrt(chave.shape[2])
        letras = frase.shape[1]
        futuro = np.triu(np.full((letras, letras), True), 2)
        pontos[:, futuro] = -1e30
        pontos = np.exp(pontos - pontos.max(2, keepdims=True))
        return pontos / pontos.sum(2, keepdims=True) @ valor
