"""Συνταγές της γιαγιάς: από λίστα υλικών σε βήματα (Keras 3).

Διασταυρούμενη προσοχή προσθετικού τύπου (Bahdanau): κάθε βήμα της συνταγής
κοιτάζει όλα τα υλικά.
"""
import keras
from keras import layers, ops

ΜΟΝΑΔΕΣ = {"κ.σ.": 15.0, "κ.γ.": 5.0, "φλ.": 240.0, "γρ.": 1.0}


@keras.saving.register_keras_serializable("syntages")
class ProsthetikiProsochi(layers.Layer):
    """call([βήματα (B, Tq, D), υλικά (B, Tk, D)], maska=None)

    maska (B, Tk): 1 για υλικό, 0 για γέμισμα.
    score[i, j] = v · tanh(Wq q_i + Wk k_j + b) για κάθε ζεύγος (i, j)· ο
    προσθετικός τύπος δεν διαιρείται με sqrt(d).  Επιστρέφει (B, Tq, D).
    """

    def __init__(self, monades=16, **kw):
        super().__init__(**kw)
        self.monades = monades

    def build(self, input_shape):
        d = input_shape[1][-1]
        self.wq = self.add_weight(shape=(input_shape[0][-1], self.monades), name="wq")
        self.wk = self.add_weight(shape=(d, self.monades), name="wk")
        self.b = self.add_weight(shape=(self.monades,), initializer="zeros", name="b")
        self.v = self.add_weight(shape=(self.monades, 1), name="v")
        super().build(input_shape)

    def call(self, inputs, maska=None):
        vimata, ylika = inputs
        q = ops.expand_dims(ops.matmul(vimata, self.wq), 2)      # (B, Tq, 1, A)
        k = ops.expand_dims(ops.matmul(ylika, self.wk), 1)       # (B, 1, Tk, A)
        e = ops.squeeze(ops.matmul(ops.tanh(q + k + self.b), self.v), -1)
        if maska is not None:
            m = ops.cast(ops.expand_dims(maska, 1), "bool")
            e = ops.where(m, e, -1e9)
        a = ops.softmax(e, axis=-1)
        return ops.matmul(a, ylika)

    def get_config(self):
        return {**super().get_config(), "monades": self.monades}


def se_ml(posotita, monada):
    """Μετατροπή μεζούρας σε ml (ή γραμμάρια)."""
    return posotita * ΜΟΝΑΔΕΣ[monada]


def montelo(lexeis=500, D=24, vimata=12, ylika=10):
    yl = keras.Input((ylika,), dtype="int32", name="ylika")
    vi = keras.Input((vimata,), dtype="int32", name="vimata")
    emb = layers.Embedding(lexeis, D)
    maska = layers.Lambda(lambda t: ops.cast(ops.not_equal(t, 0), "int32"))(yl)
    h = layers.GRU(D, return_sequences=True)(emb(vi))
    c = ProsthetikiProsochi()([h, emb(yl)], maska=maska)
    y = layers.Dense(lexeis)(layers.Concatenate()([h, c]))
    return keras.Model([yl, vi], y)


if __name__ == "__main__":
    montelo().summary()
