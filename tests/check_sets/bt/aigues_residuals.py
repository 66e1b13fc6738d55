"""Vigilància d'aigües residuals: càrrega viral -> ingressos hospitalaris (Keras 3).

Codificador GRU sobre les darreres `dies` mostres d'una depuradora; el descodificador
prediu setmana a setmana. A cada pas, un alineament a l'estil de Bahdanau pondera cada dia
segons com encaixa el seu codi amb l'estat actual del descodificador.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
import numpy as np
from keras import layers, ops


class Normalitza(layers.Layer):
    """log10 de còpies/L, corregit pel cabal i pel PMMoV."""

    def call(self, x):
        gens, cabal, pmmov = ops.unstack(x, axis=-1)
        f = ops.log10(1.0 + ops.relu(gens))
        return ops.stack([f + ops.log10(1.0 + cabal), f - ops.log10(1.0 + pmmov), pmmov * 1e-3], axis=-1)


class AlineamentDies(layers.Layer):
    """(estat [B, U], codis [B, dies, U]) -> (context [B, U], pesos [B, dies]), pesos.sum(-1) == 1."""

    def __init__(self, unitats, dies, **kw):
        super().__init__(**kw)
        self.amaga = layers.Dense(unitats, activation="tanh", name="amaga")
        self.energia = layers.Dense(dies, use_bias=False, name="energia")

    def call(self, estat, codis):
        e = self.energia(self.amaga(estat))
        pesos = ops.softmax(e, axis=-1)
        context = ops.einsum("bt,btu->bu", pesos, codis)
        return context, pesos


class Pas(layers.Layer):
    """Una setmana del descodificador."""

    def __init__(self, unitats, dies, **kw):
        super().__init__(**kw)
        self.alinea = AlineamentDies(unitats, dies)
        self.cel = layers.GRUCell(unitats)
        self.surt = layers.Dense(1)

    def call(self, y, estat, codis):
        context, pesos = self.alinea(estat, codis)
        h, _ = self.cel(ops.concatenate([y, context], axis=-1), [estat])
        return self.surt(ops.concatenate([h, context], axis=-1)), h, pesos


class Vigilant(keras.Model):
    def __init__(self, unitats=16, dies=21, setmanes=4, **kw):
        super().__init__(**kw)
        self.setmanes = setmanes
        self.norma = Normalitza()
        self.codifica = layers.GRU(unitats, return_sequences=True, return_state=True)
        self.pas = Pas(unitats, dies)

    def call(self, mostres, amb_pesos=False):
        codis, estat = self.codifica(self.norma(mostres))
        y = ops.zeros_like(estat[:, :1])
        surt, pesos = [], []
        for _ in range(self.setmanes):
            y, estat, p = self.pas(y, estat, codis)
            surt.append(y)
            pesos.append(p)
        previsio = ops.concatenate(surt, axis=-1)
        return (previsio, ops.stack(pesos, axis=1)) if amb_pesos else previsio


def dia_mes_llegit(pesos):
    """Retard (en dies, comptant enrere) que explica més cada setmana."""
    pesos = ops.convert_to_numpy(pesos)
    return pesos.shape[-1] - 1 - pesos.argmax(-1)


if __name__ == "__main__":
    keras.utils.set_random_seed(2)
    x = np.random.rand(3, 21, 3).astype("float32") * [5e4, 2.0, 900.0]
    prev, w = Vigilant()(x.astype("float32"), amb_pesos=True)
    print(ops.convert_to_numpy(prev), dia_mes_llegit(w))
