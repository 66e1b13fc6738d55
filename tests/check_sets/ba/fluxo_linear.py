"""Atenção linear em fluxo, para sensores de um parque eólico.

O estado tem tamanho fixo; nenhum evento passado é guardado.
    abrir() -> zera o estado;  empurrar(k, v) -> acumula;  ler(q) -> consulta.
"""
import numpy as np


def elu1(x):
    """phi(x) = elu(x) + 1, sempre positivo."""
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class FluxoLinear:
    """Katharopoulos et al. 2020, núcleo elu+1 (aqui não há softmax nem 1/sqrt(d)).

        saida(q) = phi(q) S / (phi(q) . z),   S = soma phi(k) v^T,   z = soma phi(k)

    decaimento < 1 esquece: S e z são multiplicados por ele antes de cada novo par.
    """

    EPS = 1e-12

    def __init__(self, d_chave, d_valor, cabecas=2, decaimento=1.0):
        if not 0.0 < decaimento <= 1.0:
            raise ValueError("decaimento fora de (0, 1]")
        self.h, self.dk, self.dv = cabecas, d_chave, d_valor
        self.g = decaimento
        self.abrir()

    def abrir(self):
        self.S = np.zeros((self.h, self.dk, self.dv))
        self.z = np.zeros((self.h, self.dk))
        self.n = 0

    def empurrar(self, k, v):
        """k (h, dk), v (h, dv)"""
        fk = elu1(np.asarray(k, float))
        self.S = self.g * self.S + np.einsum("hk,hv->hkv", fk, v)
        self.z = self.g * self.z + fk
        self.n += 1

    def ler(self, q):
        """q (h, dk) -> (h, dv); zeros se nada foi empurrado."""
        if self.n == 0:
            return np.zeros((self.h, self.dv))
        fq = elu1(np.asarray(q, float))
        num = np.einsum("hk,hkv->hv", fq, self.S)
        den = np.einsum("hk,hk->h", fq, self.z)
        return num / (den[:, None] + self.EPS)

    def passo(self, q, k, v):
        # o próprio evento é visível para sua consulta
        self.empurrar(k, v)
        return self.ler(q)


def suavizar(serie, largura=4, semente=0):
    """serie (T, c) -> (T, c) com projeções aleatórias fixas; usado nos gráficos."""
    rng = np.random.default_rng(semente)
    T, c = serie.shape
    Wq, Wk = rng.normal(size=(2, 1, c, largura)) / np.sqrt(c)
    f = FluxoLinear(largura, c, cabecas=1, decaimento=0.98)
    return np.concatenate([
        f.passo(np.einsum("c,hcd->hd", x, Wq), np.einsum("c,hcd->hd", x, Wk), x[None]) for x in serie
    ])
