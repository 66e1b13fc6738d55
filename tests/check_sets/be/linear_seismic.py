"""Atenção linear causal para traços sísmicos (Katharopoulos et al., 2020).

O mapa de características é phi(x) = elu(x) + 1 e a recorrência guarda
S = sum phi(k) v^T  e  z = sum phi(k).  Custo O(L) no comprimento do traço.
"""
import numpy as np


def phi(x):
    # elu(x) + 1; o minimum evita estouro no ramo que np.where descarta
    return np.where(x > 0, x + 1.0, np.exp(np.minimum(x, 0.0)))


class AtencaoLinear:
    """Modo paralelo: __call__(x) com x (L, D).  Modo passo a passo: passo(x_t)."""

    def __init__(self, dim, cabecas, semente=0):
        rng = np.random.default_rng(semente)
        self.h = cabecas
        self.d = dim // cabecas
        esc = dim ** -0.5
        self.Wq = rng.normal(0, esc, (dim, dim))
        self.Wk = rng.normal(0, esc, (dim, dim))
        self.Wv = rng.normal(0, esc, (dim, dim))
        self.Wo = rng.normal(0, esc, (dim, dim))
        self.zerar()

    def zerar(self):
        self.S = np.zeros((self.h, self.d, self.d))
        self.z = np.zeros((self.h, self.d))

    def _projeta(self, x):
        n = x.shape[0]
        forma = (n, self.h, self.d)
        q = phi((x @ self.Wq).reshape(forma))
        k = phi((x @ self.Wk).reshape(forma))
        v = (x @ self.Wv).reshape(forma)
        return q, k, v

    def __call__(self, x, eps=1e-12):
        q, k, v = self._projeta(x)
        S = np.cumsum(np.einsum("lhd,lhe->lhde", k, v), axis=0)
        z = np.cumsum(k, axis=0)
        num = np.einsum("lhd,lhde->lhe", q, S)
        den = np.einsum("lhd,lhd->lh", q, z)
        y = num / (den[..., None] + eps)
        return y.reshape(x.shape) @ self.Wo

    def passo(self, x_t, eps=1e-12):
        q, k, v = self._projeta(x_t[None])
        self.S += np.einsum("hd,he->hde", k[0], v[0])
        self.z += k[0]
        num = np.einsum("hd,hde->he", q[0], self.S)
        den = np.einsum("hd,hd->h", q[0], self.z)
        return (num / (den[:, None] + eps)).reshape(-1) @ self.Wo


def normaliza_traco(traco):
    return (traco - traco.mean(0)) / (traco.std(0) + 1e-9)


def janelas(traco, tamanho, salto):
    for i in range(0, len(traco) - tamanho + 1, salto):
        yield traco[i:i + tamanho]


if __name__ == "__main__":
    camada = AtencaoLinear(16, 4)
    sinal = normaliza_traco(np.random.default_rng(1).normal(size=(200, 16)))
    for w in janelas(sinal, 50, 50):
        print(camada(w).std())
