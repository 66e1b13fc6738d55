# %% [markdown]
# # Cuaderno 7 - Un transformador desde cero (NumPy)
#
# Predicción de la captura de percebe a partir de mareas, oleaje y luna.
# Aquí construimos la autoatención multicabeza paso a paso:
#
#   1. proyectar a q, k, v
#   2. puntuaciones  q k^T / sqrt(d)
#   3. ocultar los días sin parte (barco en puerto)
#   4. softmax estable por filas
#   5. mezclar los valores, juntar las cabezas, proyectar

# %%
import numpy as np

rng = np.random.default_rng(2024)
MUY_NEGATIVO = 1e-9


# %% Paso 0: utilidades
def glorot(n, m):
    lim = np.sqrt(6.0 / (n + m))
    return rng.uniform(-lim, lim, size=(n, m))


def normalizar_capa(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def softmax(x):
    """Softmax por filas, restando el máximo para que no se desborde."""
    m = np.max(x, axis=-1, keepdims=True)
    return np.exp(x - m) / np.sum(np.exp(x), axis=-1, keepdims=True)


# %% Pasos 1 a 5
class AutoAtencion:
    """x: (lote, dias, d_modelo); parte: (lote, dias), 1 = hay parte de pesca, 0 = no.

    Un día sin parte no recibe ningún peso. Devuelve (lote, dias, d_modelo).
    """

    def __init__(self, d_modelo, cabezas):
        assert d_modelo % cabezas == 0
        self.h = cabezas
        self.d = d_modelo // cabezas
        self.Wq = glorot(d_modelo, d_modelo)
        self.Wk = glorot(d_modelo, d_modelo)
        self.Wv = glorot(d_modelo, d_modelo)
        self.Wo = glorot(d_modelo, d_modelo)
        self.pesos = None                      # para dibujarlos luego

    def cabezas(self, x):
        b, t, _ = x.shape
        return x.reshape(b, t, self.h, self.d).transpose(0, 2, 1, 3)

    def proyectar(self, x):
        q = self.cabezas(x @ self.Wq) / np.sqrt(self.d)
        k = self.cabezas(x @ self.Wk)
        v = self.cabezas(x @ self.Wv)
        return q, k, v

    def puntuar(self, q, k, parte):
        s = q @ np.swapaxes(k, -1, -2) / np.sqrt(self.d)
        if parte is not None:
            s = np.where(parte[:, None, None, :] == 1, s, MUY_NEGATIVO)
        return s

    def __call__(self, x, parte=None):
        q, k, v = self.proyectar(x)
        self.pesos = softmax(self.puntuar(q, k, parte))
        y = self.pesos @ v                                       # (lote, h, dias, d)
        y = y.transpose(0, 2, 1, 3).reshape(x.shape)
        return y @ self.Wo


# %% Bloque completo
class Bloque:
    def __init__(self, d_modelo=16, cabezas=4):
        self.at = AutoAtencion(d_modelo, cabezas)
        self.W1, self.W2 = glorot(d_modelo, 2 * d_modelo), glorot(2 * d_modelo, d_modelo)

    def __call__(self, x, parte):
        x = x + self.at(normalizar_capa(x), parte)
        return x + np.maximum(normalizar_capa(x) @ self.W1, 0) @ self.W2


# %% Datos de juguete: coeficiente de marea, altura de ola, fase lunar, temperatura
def datos(lote=3, dias=14):
    t = np.arange(dias)
    marea = 70 + 35 * np.cos(2 * np.pi * t / 14.77 + rng.uniform(0, 6, (lote, 1)))
    ola = rng.gamma(2.0, 1.0, (lote, dias))
    luna = np.cos(2 * np.pi * t / 29.53 + rng.uniform(0, 6, (lote, 1)))
    temp = 14 + rng.normal(0, 1, (lote, dias))
    x = np.stack([marea / 100, ola / 3, luna, temp / 14], -1)
    parte = (ola < 3.5).astype(int)
    parte[:, 0] = 1
    return x, parte


# %%
if __name__ == "__main__":
    x, parte = datos()
    emb, cab = glorot(4, 16), glorot(16, 1)
    bloque = Bloque()
    kilos = np.exp(bloque(x @ emb, parte) @ cab)[..., 0]
    print(kilos.round(2))
