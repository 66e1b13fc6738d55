"""Prédiction de clics : résumé de l'historique des campagnes vues par un internaute.

`ResumeHistorique` : une requête apprise par tête lit l'historique (Keras 3).
"""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="pub")
class ResumeHistorique(layers.Layer):
    """Entrée (lot, n, dim) et `vu` (lot, n) booléen, True = campagne réellement vue.

    Sortie (lot, dim).  Un internaute sans aucune campagne reçoit zéro.
    """

    def __init__(self, dim, tetes, **kw):
        super().__init__(**kw)
        self.dim, self.tetes, self.d = dim, tetes, dim // tetes

    def build(self, forme):
        ini = "glorot_uniform"
        self.requete = self.add_weight(shape=(self.tetes, self.d), initializer="random_normal", name="requete")
        self.cle = self.add_weight(shape=(forme[-1], self.tetes, self.d), initializer=ini, name="cle")
        self.valeur = self.add_weight(shape=(forme[-1], self.tetes, self.d), initializer=ini, name="valeur")
        self.built = True

    def call(self, x, vu=None):
        k = ops.einsum("bnc,chd->bnhd", x, self.cle)
        v = ops.einsum("bnc,chd->bnhd", x, self.valeur)
        s = ops.einsum("hd,bnhd->bnh", self.requete, k) / (self.d ** 0.5)
        # l'axe 1 est celui de l'historique
        if vu is not None:
            m = ops.cast(ops.expand_dims(vu, -1), s.dtype)
            s = s - 1e9 * (1.0 - m)
            p = ops.softmax(s, axis=1) * m
        else:
            p = ops.softmax(s, axis=1)
        y = ops.einsum("bnh,bnhd->bhd", p, v)
        return ops.reshape(y, (-1, self.dim))

    def get_config(self):
        return {**super().get_config(), "dim": self.dim, "tetes": self.tetes}


def modele(n_campagnes, longueur=20, dim=16):
    hist = keras.Input((longueur,), dtype="int32", name="historique")
    cible = keras.Input((), dtype="int32", name="cible")
    table = layers.Embedding(n_campagnes + 1, dim)
    vu = ops.not_equal(hist, 0)
    profil = ResumeHistorique(dim, 2)(table(hist), vu=vu)
    c = table(cible)
    z = layers.Concatenate()([profil, c, profil * c])
    z = layers.Dense(32, activation="relu")(z)
    return keras.Model([hist, cible], layers.Dense(1, activation="sigmoid")(z))


if __name__ == "__main__":
    modele(1000).summary()
