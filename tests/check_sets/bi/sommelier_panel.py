"""Aggregation d'un panel de dégustation (Keras 3).

Chaque vin interroge les fiches des dégustateurs. On rend la synthèse et les poids.
Les poids sont des distributions : chaque ligne somme à 1. La perte d'entropie de
`PanelModel` s'en sert pendant l'apprentissage pour éviter qu'un seul dégustateur
ne décide de tout.
"""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="panel")
class LecturePanel(layers.Layer):
    """Lecture des fiches par les vins.

    Arguments d'appel:
        vins:    (lot, nb_vins, c)
        fiches:  (lot, nb_fiches, c)
        remplie: booléen (lot, nb_fiches), Vrai = fiche rendue
    Sortie: synthèse (lot, nb_vins, unites), poids (lot, nb_vins, nb_fiches)
    """

    def __init__(self, unites, taux=0.1, **kw):
        super().__init__(**kw)
        self.unites = unites
        self.taux = taux
        self.wq = layers.Dense(unites, use_bias=False)
        self.wk = layers.Dense(unites, use_bias=False)
        self.wv = layers.Dense(unites, use_bias=False)
        self.oubli = layers.Dropout(taux)

    def build(self, vins_shape, fiches_shape, remplie_shape=None):
        self.wq.build(vins_shape)
        self.wk.build(fiches_shape)
        self.wv.build(fiches_shape)

    def call(self, vins, fiches, remplie=None, training=False):
        q, k, v = self.wq(vins), self.wk(fiches), self.wv(fiches)
        s = ops.matmul(q, ops.transpose(k, (0, 2, 1))) / float(self.unites) ** 0.5
        if remplie is not None:
            s = ops.where(remplie[:, None, :], s, -1e9)
        poids = ops.softmax(s, axis=-1)
        poids = self.oubli(poids, training=training)
        return ops.matmul(poids, v), poids

    def get_config(self):
        return {**super().get_config(), "unites": self.unites, "taux": self.taux}


class PanelModel(keras.Model):
    def __init__(self, unites=32, lam=1e-2):
        super().__init__()
        self.lecture = LecturePanel(unites)
        self.note = layers.Dense(1)
        self.lam = lam

    def call(self, entree, training=False):
        vins, fiches, remplie = entree
        h, p = self.lecture(vins, fiches, remplie, training=training)
        entropie = -ops.sum(p * ops.log(p + 1e-9), axis=-1)
        self.add_loss(-self.lam * ops.mean(entropie))
        return self.note(h)
