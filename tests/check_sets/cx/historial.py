"""Recomendador: resume el historial de compras de un cliente para cada producto candidato."""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import ops


class Historial(keras.layers.Layer):
    """candidatos [B, C, D], compras [B, N, D], cuantas [B] (numero de compras reales; 0 permitido).

    Salida [B, C, D]: para cada candidato, media ponderada (softmax) de las `k` compras reales mas
    afines; las demas no cuentan. Si hay menos de k compras reales se usan todas. Un cliente sin
    compras da ceros. Afinidad: producto escalar / sqrt(D) tras proyeccion lineal.
    """

    def __init__(self, dim, k=3, **kw):
        super().__init__(**kw)
        self.dim, self.k = dim, k
        self.pc = keras.layers.Dense(dim, use_bias=False)
        self.ph = keras.layers.Dense(dim, use_bias=False)

    def call(self, candidatos, compras, cuantas):
        n = compras.shape[1]
        real = ops.arange(n)[None, :] < ops.cast(cuantas, "int32")[:, None]
        real = ops.broadcast_to(real[:, None, :], (compras.shape[0], candidatos.shape[1], n))
        a = ops.matmul(self.pc(candidatos), ops.transpose(self.ph(compras), (0, 2, 1)))
        a = ops.where(real, a / self.dim ** 0.5, -3e38)
        valor, cual = ops.top_k(a, min(self.k, n))
        valido = ops.take_along_axis(real, cual, axis=-1)
        peso = ops.exp(valor - valor[..., :1]) * ops.cast(valido, valor.dtype)
        peso = peso / ops.maximum(ops.sum(peso, axis=-1, keepdims=True), 1e-9)
        elegido = ops.one_hot(cual, n)                                  # [B, C, k, N]
        completo = ops.sum(ops.expand_dims(peso, -1) * elegido, axis=2)  # [B, C, N]
        return ops.matmul(completo, compras)
