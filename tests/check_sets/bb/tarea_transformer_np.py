# %% [markdown]
# # Tarea 2: codificador Transformer en NumPy
# Curso de Física Computacional - clasificar estados del modelo de Ising
# %%
import numpy as np


def softmax(z, eje=-1):
    z = z - z.max(axis=eje, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=eje, keepdims=True)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))


# %% Ising
def ising(n, T, pasos=2000, semilla=0):
    """red n x n con Metropolis"""
    g = np.random.default_rng(semilla)
    s = g.choice([-1, 1], (n, n))
    for _ in range(pasos):
        i, j = g.integers(n, size=2)
        dE = 2 * s[i, j] * (s[(i + 1) % n, j] + s[i - 1, j] + s[i, (j + 1) % n] + s[i, j - 1])
        if dE <= 0 or g.random() < np.exp(-dE / T):
            s[i, j] *= -1
    return s


# %% atención
class MultiCabeza:
    """Atención multi-cabeza (Vaswani et al. 2017): cada cabeza h usa sus propias
    columnas h*dk:(h+1)*dk de Wq, Wk, Wv; softmax(Q K^T / sqrt(dk)) V; las cabezas se
    concatenan y se multiplican por Wo.

    x: (lote, n, d)   devuelve (lote, n, d)
    """

    def __init__(self, d, h, semilla=0):
        g = np.random.default_rng(semilla)
        self.d, self.h, self.dk = d, h, d // h
        for nombre in ("Wq", "Wk", "Wv", "Wo"):
            setattr(self, nombre, g.normal(0, 1 / np.sqrt(d), (d, d)))

    def separar(self, x):
        lote, n, _ = x.shape
        return x.reshape(lote, n, self.h, self.dk).swapaxes(1, 2)

    def juntar(self, x):
        lote, h, n, dk = x.shape
        return x.reshape(lote, n, h * dk)

    def __call__(self, x):
        Q, K, V = (self.separar(x @ W) for W in (self.Wq, self.Wk, self.Wv))
        A = softmax(Q @ K.swapaxes(-1, -2) / np.sqrt(self.d))
        return self.juntar(A @ V) @ self.Wo


# %% modelo
class Codificador:
    def __init__(self, d=16, h=4, parche=2, semilla=0):
        g = np.random.default_rng(semilla)
        self.p = parche
        self.E = g.normal(0, 0.5, (parche * parche, d))
        self.mc = MultiCabeza(d, h, semilla + 1)
        self.W1 = g.normal(0, d ** -0.5, (d, 2 * d))
        self.W2 = g.normal(0, (2 * d) ** -0.5, (2 * d, d))

    def __call__(self, redes):
        lote, n, _ = redes.shape
        p = self.p
        t = redes.reshape(lote, n // p, p, n // p, p).transpose(0, 1, 3, 2, 4)
        x = t.reshape(lote, -1, p * p) @ self.E
        x = x + self.mc(x)
        x = x + gelu(x @ self.W1) @ self.W2
        return x.mean(axis=1)


# %%
if __name__ == "__main__":
    redes = np.stack([ising(8, T, semilla=i) for i, T in enumerate((1.0, 2.27, 5.0))])
    print(Codificador()(redes).round(2))
