"""Keras 3 layer: talking-heads attention (Shazeer et al. 2020).

Between the scores and the softmax a learned matrix mixes the heads
(num_heads -> num_heads), a second one mixes them again after the softmax.
The rows of the second mix need not sum to one; that is how the method is.

TalkingHeads(num_heads, key_dim)
    call(x, mask=None)
        x      (batch, length, channels)
        mask   (batch, length) bool, True = real token, False = padding; at
               least one real token in each sample
        ->     (batch, length, channels)
The scores are divided by sqrt(key_dim).  Padding is never read.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import ops


class TalkingHeads(keras.layers.Layer):
    def __init__(self, num_heads, key_dim, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.supports_masking = True

    def build(self, input_shape):
        c, h, d = input_shape[-1], self.num_heads, self.key_dim

        def kernel(name, shape):
            return self.add_weight(name=name, shape=shape, initializer="glorot_uniform")

        self.wq = kernel("wq", (c, h, d))
        self.wk = kernel("wk", (c, h, d))
        self.wv = kernel("wv", (c, h, d))
        self.wo = kernel("wo", (h, d, c))
        self.mix_logits = kernel("mix_logits", (h, h))
        self.mix_probs = kernel("mix_probs", (h, h))

    def call(self, x, mask=None):
        q = ops.einsum("blc,chd->blhd", x, self.wq)
        k = ops.einsum("bmc,chd->bmhd", x, self.wk)
        v = ops.einsum("bmc,chd->bmhd", x, self.wv)

        logits = ops.einsum("blhd,bmhd->bhlm", q, k) / (self.key_dim ** 0.5)
        logits = ops.einsum("bhlm,hg->bglm", logits, self.mix_logits)
        if mask is not None:
            # after the mix, so that no weight of mix_logits can lift it
            keep = ops.cast(mask, "bool")[:, None, None, :]
            logits = ops.where(keep, logits, -1e9)
        probs = ops.softmax(logits, axis=-1)
        probs = ops.einsum("bglm,gh->bhlm", probs, self.mix_probs)

        y = ops.einsum("bhlm,bmhd->blhd", probs, v)
        return ops.einsum("blhd,hdc->blc", y, self.wo)
