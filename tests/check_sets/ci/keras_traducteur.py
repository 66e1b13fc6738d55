"""Un pas de decodage a la Luong (score "general") en Keras 3.

``etat``    : (B, D)     etat du decodeur
``source``  : (B, S, E)  etats de l'encodeur
``present`` : (B, S)     vrai = vrai mot, faux = remplissage a ignorer (>= 1 mot par phrase)

Rend le vecteur de sortie h~ = tanh(W [c; h]) de forme (B, D) et les parts (B, S).
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


class PasDeLuong(layers.Layer):
    def __init__(self, taille, **kw):
        super().__init__(**kw)
        self.taille = taille
        self.sortie = layers.Dense(taille, activation="tanh", use_bias=False)

    def build(self, etat_shape, source_shape, present_shape=None):
        self.W = self.add_weight(shape=(source_shape[-1], etat_shape[-1]),
                                 initializer="glorot_uniform", name="W")
        self.sortie.build((etat_shape[0], etat_shape[-1] + source_shape[-1]))
        self.built = True

    def call(self, etat, source, present):
        # score(h, s_j) = h^T W s_j : Luong "general", sans facteur d'echelle
        note = ops.einsum("bd,ed,bse->bs", etat, self.W, source)
        note = ops.where(ops.cast(present, "bool"), note, -1e30)
        note = note - ops.max(note, axis=1, keepdims=True)
        part = ops.exp(note)
        part = part / ops.sum(part, axis=1, keepdims=True)
        contexte = ops.einsum("bs,bse->be", part, source)
        return self.sortie(ops.concatenate([contexte, etat], axis=-1)), part


class Traducteur(keras.Model):
    """mots (B, T, M) vecteurs cible, source et present comme plus haut -> (B, T, taille)"""

    def __init__(self, taille=16, **kw):
        super().__init__(**kw)
        self.taille = taille
        self.cellule = layers.GRUCell(taille)
        self.pas = PasDeLuong(taille)

    def call(self, mots, source, present):
        etat = ops.zeros((ops.shape(mots)[0], self.taille))
        sortie = etat
        tout = []
        for t in range(mots.shape[1]):
            entree = ops.concatenate([mots[:, t], sortie], axis=-1)
            etat, _ = self.cellule(entree, [etat])
            sortie, _ = self.pas(etat, source, present)
            tout.append(sortie)
        return ops.stack(tout, axis=1)
