import keras
from keras import ops


class FraseBloco(keras.layers.Layer):
    """Bloco codificador (pré-norma) para avaliações de clientes.

    x: (B, L, dim); validos: (B, L) com 1 nas palavras e 0 no preenchimento.
    O preenchimento não recebe nenhum peso.
    """

    def __init__(self, dim, cabecas, **kw):
        super().__init__(**kw)
        self.dim, self.cabecas, self.d = dim, cabecas, dim // cabecas
        self.norma1 = keras.layers.LayerNormalization(epsilon=1e-6)
        self.norma2 = keras.layers.LayerNormalization(epsilon=1e-6)
        self.q = keras.layers.Dense(dim)
        self.k = keras.layers.Dense(dim)
        self.v = keras.layers.Dense(dim)
        self.saida = keras.layers.Dense(dim)
        self.mlp = keras.Sequential([keras.layers.Dense(4 * dim, activation="gelu"), keras.layers.Dense(dim)])

    def dividir(self, t):
        b, l, _ = t.shape
        return ops.transpose(ops.reshape(t, (b, l, self.cabecas, self.d)), (0, 2, 1, 3))

    def call(self, x, validos):
        b, l, _ = x.shape
        n = self.norma1(x)
        q, k, v = self.dividir(self.q(n)), self.dividir(self.k(n)), self.dividir(self.v(n))
        notas = ops.matmul(q, ops.swapaxes(k, -1, -2)) / self.d ** 0.5
        notas = notas * ops.cast(validos, notas.dtype)[:, None, None, :]
        pesos = ops.softmax(notas, axis=-1)
        y = ops.matmul(pesos, v)
        y = ops.reshape(y, (b, l, self.dim))
        x = x + self.saida(y)
        return x + self.mlp(self.norma2(x))
