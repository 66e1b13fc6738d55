"""Resumen de sesiones por intereses múltiples (Keras 3).

Cada sesión de clics [lote, pasos, dim] se resume en ``n_intereses`` vectores.
Como en ComiRec-SA, los pesos salen de una red pequeña
A = softmax(W2 tanh(W1 H)) sobre los pasos: cada columna de W2 es la consulta
aprendida de un interés. Los pasos con máscara falsa no cuentan; una sesión
vacía da ceros.
"""
import keras
from keras import ops


class MultiInteres(keras.layers.Layer):
    def __init__(self, n_intereses=3, ocultas=16, **kwargs):
        super().__init__(**kwargs)
        self.n_intereses = n_intereses
        self.ocultas = ocultas
        self.supports_masking = True

    def build(self, forma):
        dim = forma[-1]
        self.w1 = self.add_weight(shape=(dim, self.ocultas), initializer="glorot_uniform", name="w1")
        self.w2 = self.add_weight(shape=(self.ocultas, self.n_intereses), initializer="glorot_uniform", name="w2")

    def pesos(self, h, mask=None):
        """[lote, n_intereses, pasos]; cada fila suma 1 (0 en sesiones vacías)"""
        puntos = ops.matmul(ops.tanh(ops.matmul(h, self.w1)), self.w2)
        puntos = ops.transpose(puntos, (0, 2, 1))
        if mask is None:
            return ops.softmax(puntos, axis=-1)
        visible = ops.expand_dims(ops.cast(mask, "bool"), 1)
        puntos = ops.where(visible, puntos, -1e9)
        return ops.where(visible, ops.softmax(puntos, axis=-1), 0.0)

    def call(self, h, mask=None):
        return ops.matmul(self.pesos(h, mask), h)

    def compute_mask(self, h, mask=None):
        return None

    def compute_output_shape(self, forma):
        return (forma[0], self.n_intereses, forma[-1])

    def get_config(self):
        return {**super().get_config(), "n_intereses": self.n_intereses, "ocultas": self.ocultas}


class Recomendador(keras.Model):
    """La puntuación de un artículo es la de su mejor interés."""

    def __init__(self, n_articulos=300, dim=16, n_intereses=3):
        super().__init__()
        self.articulos = keras.layers.Embedding(n_articulos, dim, mask_zero=True)
        self.intereses = MultiInteres(n_intereses)

    def call(self, entradas):
        sesion, candidatos = entradas
        mascara = ops.not_equal(sesion, 0)
        u = self.intereses(self.articulos(sesion), mask=mascara)
        c = self.articulos(candidatos)
        return ops.max(ops.einsum("bkd,bcd->bkc", u, c), axis=1)


if __name__ == "__main__":
    import numpy as np

    modelo = Recomendador()
    sesion = np.array([[5, 9, 2, 0], [7, 0, 0, 0]])
    print(modelo((sesion, np.array([[1, 2], [3, 4]]))).shape)
