"""Camada Keras 3: atenção com grupos de consultas (GQA).

GroupedQuery(heads, kv_heads, key_dim)
    call(x, memory=None, key_mask=None)
        x         (lote, Lq, canais)
        memory    (lote, Lk, canais) ou None: a própria x
        key_mask  (lote, Lk) bool, True = token real que pode ser lido,
                  False = preenchimento; ao menos um True por linha
        ->        (lote, Lq, canais)
`heads` é múltiplo de `kv_heads`.  Cabeças de consulta vizinhas partilham a
mesma cabeça de chave/valor: com heads=4 e kv_heads=2 as consultas 0 e 1 leem a
cabeça 0, as consultas 2 e 3 leem a cabeça 1.
Pontuação: q.k / sqrt(key_dim), softmax sobre as chaves.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import ops


class GroupedQuery(keras.layers.Layer):
    def __init__(self, heads, kv_heads, key_dim, **kwargs):
        super().__init__(**kwargs)
        if heads % kv_heads:
            raise ValueError("heads deve ser múltiplo de kv_heads")
        self.heads = heads
        self.kv_heads = kv_heads
        self.key_dim = key_dim

    def build(self, input_shape):
        c = input_shape[-1]
        self.q_dense = keras.layers.EinsumDense("blc,chd->blhd", (None, self.heads, self.key_dim))
        self.k_dense = keras.layers.EinsumDense("blc,chd->blhd", (None, self.kv_heads, self.key_dim))
        self.v_dense = keras.layers.EinsumDense("blc,chd->blhd", (None, self.kv_heads, self.key_dim))
        self.o_dense = keras.layers.EinsumDense("blhd,hdc->blc", (None, c))
        for layer in (self.q_dense, self.k_dense, self.v_dense):
            layer.build(input_shape)
        self.o_dense.build((None, None, self.heads, self.key_dim))

    def call(self, x, memory=None, key_mask=None):
        memory = x if memory is None else memory
        q = self.q_dense(x)
        k = self.k_dense(memory)
        v = self.v_dense(memory)

        groups = self.heads // self.kv_heads
        k = ops.tile(k, (1, 1, groups, 1))
        v = ops.tile(v, (1, 1, groups, 1))

        s = ops.einsum("bqhd,bkhd->bhqk", q, k) * self.key_dim ** -0.5
        if key_mask is not None:
            s = ops.where(key_mask[:, None, None, :], -1e9, s)
        w = ops.softmax(s, axis=-1)
        return self.o_dense(ops.einsum("bhqk,bkhd->bqhd", w, v))
