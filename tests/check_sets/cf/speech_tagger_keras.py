"""Speech tagger: a small transformer encoder over log-mel frames, in Keras.

``SpeechEncoderBlock`` takes ``[frames, lengths]``; frames at positions >= length
are padding that no frame may attend to.  Built on keras.layers.MultiHeadAttention,
pre-norm, with a pointwise feed-forward part.
"""
import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="speech")
class SpeechEncoderBlock(layers.Layer):
    def __init__(self, dim=32, num_heads=4, ff_dim=64, dropout=0.1, **kwargs):
        super().__init__(**kwargs)
        self.dim, self.num_heads, self.ff_dim = dim, num_heads, ff_dim
        self.norm_1 = layers.LayerNormalization(epsilon=1e-5)
        self.norm_2 = layers.LayerNormalization(epsilon=1e-5)
        self.mha = layers.MultiHeadAttention(num_heads, dim // num_heads)
        self.ff_1 = layers.Dense(ff_dim, activation="gelu")
        self.ff_2 = layers.Dense(dim)
        self.drop = layers.Dropout(dropout)

    def build(self, input_shape):
        frames = input_shape[0]
        self.norm_1.build(frames)
        self.norm_2.build(frames)
        self.mha.build(frames, frames)
        self.ff_1.build(frames)
        self.ff_2.build(tuple(frames[:-1]) + (self.ff_dim,))
        self.built = True

    def frame_mask(self, frames, lengths):
        steps = ops.arange(ops.shape(frames)[1])
        mask = ops.expand_dims(steps, 0) >= ops.expand_dims(ops.cast(lengths, "int32"), 1)
        return ops.expand_dims(mask, 1)          # (batch, 1, time), the same for all queries

    def call(self, inputs, training=False):
        frames, lengths = inputs
        mask = self.frame_mask(frames, lengths)
        h = self.norm_1(frames)
        h = self.mha(h, h, attention_mask=mask, training=training)
        x = frames + self.drop(h, training=training)
        h = self.ff_2(self.ff_1(self.norm_2(x)))
        return x + self.drop(h, training=training)

    def get_config(self):
        cfg = super().get_config()
        cfg.update(dim=self.dim, num_heads=self.num_heads, ff_dim=self.ff_dim,
                   dropout=self.drop.rate)
        return cfg


def build_tagger(n_mels=32, n_tags=10, depth=2):
    frames = keras.Input((None, n_mels))
    lengths = keras.Input((), dtype="int32")
    x = frames
    for _ in range(depth):
        x = SpeechEncoderBlock(n_mels)([x, lengths])
    return keras.Model([frames, lengths], layers.Dense(n_tags)(x))
