"""Transcripción de náhuatl clásico a braille: seq2seq con alineación aditiva (Keras 3)."""
import keras
from keras import layers, ops

MAPA_TILDES = {"ā": "a", "ē": "e", "ī": "i", "ō": "o"}


def simplifica(texto):
    return "".join(MAPA_TILDES.get(c, c) for c in texto.lower())


@keras.saving.register_keras_serializable("braille")
class AlineadorAditivo(layers.Layer):
    """Bahdanau: e_ij = v · tanh(W s_i + U h_j + b).

    Llamada: (estados [B, Tq, Dq], memoria [B, Tk, Dk], mascara [B, Tk] bool, True = signo real).
    Devuelve (contexto [B, Tq, Dk], pesos [B, Tq, Tk]); cada fila de pesos suma uno.
    """

    def __init__(self, unidades, **kw):
        super().__init__(**kw)
        self.unidades = unidades
        self.W = layers.Dense(unidades, use_bias=False)
        self.U = layers.Dense(unidades)
        self.v = layers.Dense(1, use_bias=False)

    def build(self, estados_shape, memoria_shape, mascara_shape=None):
        self.W.build(estados_shape)
        self.U.build(memoria_shape)
        self.v.build((None, None, None, self.unidades))
        self.built = True

    def call(self, estados, memoria, mascara=None):
        s = ops.expand_dims(self.W(estados), 2)       # [B, Tq, 1, u]
        h = ops.expand_dims(self.U(memoria), 1)       # [B, 1, Tk, u]
        e = ops.squeeze(self.v(ops.tanh(s + h)), -1)  # [B, Tq, Tk]
        if mascara is not None:
            e = ops.where(mascara[:, None, :], e, -1e9)
        pesos = ops.softmax(e, axis=-1)
        return ops.matmul(pesos, memoria), pesos

    def get_config(self):
        return {**super().get_config(), "unidades": self.unidades}


class Transcriptor(keras.Model):
    def __init__(self, n_in, n_out, d=32, **kw):
        super().__init__(**kw)
        self.emb_in = layers.Embedding(n_in, d)
        self.emb_out = layers.Embedding(n_out, d)
        self.cod = layers.Bidirectional(layers.GRU(d // 2, return_sequences=True))
        self.dec = layers.GRU(d, return_sequences=True)
        self.alinea = AlineadorAditivo(d)
        self.mezcla = layers.Dense(d, activation="tanh")
        self.puntos = layers.Dense(n_out)

    def call(self, entradas):
        letras, celdas = entradas
        reales = ops.not_equal(letras, 0)
        memoria = self.cod(self.emb_in(letras))
        estados = self.dec(self.emb_out(celdas))
        contexto, _ = self.alinea(estados, memoria, reales)
        return self.puntos(self.mezcla(ops.concatenate([contexto, estados], -1)))


if __name__ == "__main__":
    m = Transcriptor(30, 64)
    print(ops.shape(m((ops.array([[3, 4, 0]]), ops.array([[1, 2]])))))
