"""Accords de jazz : petit modèle de langue en Keras 3 (un jeton = un accord).

Une seule tête de clé/valeur est partagée par toutes les têtes de requête (multi-query).
"""
import math

import keras
from keras import layers, ops

N_CHORDS = 1 + 12 * 7  # 0 = remplissage


@keras.saving.register_keras_serializable("chords")
class CausalMQA(layers.Layer):
    """Attention causale multi-requêtes.

    Entrée (lot, temps, dim).  `padding_mask` (lot, temps) booléen, True = vrai accord.
    """

    def __init__(self, dim, heads=4, **kw):
        super().__init__(**kw)
        self.dim, self.heads = dim, heads
        self.head_dim = dim // heads
        self.q = layers.Dense(dim, use_bias=False, name="q")
        self.kv = layers.Dense(2 * self.head_dim, use_bias=False, name="kv")
        self.gate = layers.Dense(dim, activation="sigmoid", name="gate")
        self.out = layers.Dense(dim, name="out")

    def call(self, x, padding_mask=None):
        b, t = ops.shape(x)[0], ops.shape(x)[1]
        q = ops.reshape(self.q(x), (b, t, self.heads, self.head_dim))
        k, v = ops.split(self.kv(x), 2, axis=-1)                 # (b, t, head_dim)
        scores = ops.einsum("bihd,bjd->bhij", q, k) / math.sqrt(self.head_dim)
        i = ops.arange(t)
        visible = ops.expand_dims(i, 1) >= ops.expand_dims(i, 0)
        visible = ops.reshape(visible, (1, 1, t, t))
        if padding_mask is not None:
            pm = ops.reshape(ops.cast(padding_mask, "bool"), (b, 1, 1, t))
            visible = ops.logical_and(visible, pm)
        scores = ops.where(visible, scores, -1e9)
        weights = ops.softmax(scores, axis=-1)
        y = ops.einsum("bhij,bjd->bihd", weights, v)
        y = ops.reshape(y, (b, t, self.dim))
        return self.out(y * self.gate(x))                         # porte par canal

    def get_config(self):
        return {**super().get_config(), "dim": self.dim, "heads": self.heads}


def bloc(x, mask, dim, heads, nom):
    h = layers.LayerNormalization(name=nom + "_ln1")(x)
    x = x + CausalMQA(dim, heads, name=nom + "_att")(h, padding_mask=mask)
    h = layers.LayerNormalization(name=nom + "_ln2")(x)
    h = layers.Dense(4 * dim, activation="gelu", name=nom + "_ff1")(h)
    return x + layers.Dense(dim, name=nom + "_ff2")(h)


def construire(longueur=16, dim=32, heads=4, profondeur=2):
    jetons = keras.Input((longueur,), dtype="int32")
    masque = ops.not_equal(jetons, 0)
    x = layers.Embedding(N_CHORDS, dim)(jetons)
    x = x + layers.Embedding(longueur, dim)(ops.arange(longueur))
    for n in range(profondeur):
        x = bloc(x, masque, dim, heads, f"bloc{n}")
    return keras.Model(jetons, layers.Dense(N_CHORDS)(x))
