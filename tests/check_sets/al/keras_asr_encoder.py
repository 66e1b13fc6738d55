"""Keras 3 acoustic encoder for our Swahili ASR baseline: conv subsampling + transformer blocks."""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable("asr")
class FrameSelfAttention(layers.Layer):
    """Multi-head self-attention over frames.

    Inputs: x [batch, frames, dim] and frame_mask [batch, frames], True for frames of speech and
    False for the padding at the end of short utterances, to which no frame may attend.
    """

    def __init__(self, num_heads, dropout=0.1, **kw):
        super().__init__(**kw)
        self.num_heads = num_heads
        self.rate = dropout
        self.drop = layers.Dropout(dropout)

    def build(self, shape):
        dim = shape[-1]
        self.key_dim = dim // self.num_heads
        self.q_proj = layers.Dense(dim, name="q")
        self.k_proj = layers.Dense(dim, name="k")
        self.v_proj = layers.Dense(dim, name="v")
        self.o_proj = layers.Dense(dim, name="o")
        for p in (self.q_proj, self.k_proj, self.v_proj, self.o_proj):
            p.build(shape)
        super().build(shape)

    def _split(self, t):
        b, n = ops.shape(t)[0], ops.shape(t)[1]
        return ops.transpose(ops.reshape(t, (b, n, self.num_heads, self.key_dim)), (0, 2, 1, 3))

    def call(self, x, frame_mask=None, training=False):
        q, k, v = (self._split(p(x)) for p in (self.q_proj, self.k_proj, self.v_proj))
        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / (self.key_dim ** 0.5)
        if frame_mask is not None:
            m = ops.cast(frame_mask, scores.dtype)
            m = ops.expand_dims(ops.expand_dims(m, 1), -1)
            scores = scores + (1.0 - m) * -1e9
        probs = self.drop(ops.softmax(scores, axis=-1), training=training)
        y = ops.transpose(ops.matmul(probs, v), (0, 2, 1, 3))
        return self.o_proj(ops.reshape(y, ops.shape(x)))

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads, "dropout": self.rate}


def subsampled_mask(lengths, frames):
    """lengths [batch] in input frames; two stride-2 convolutions."""
    lengths = (lengths + 3) // 4
    return ops.expand_dims(ops.arange(frames), 0) < ops.expand_dims(lengths, 1)


def encoder_block(x, mask, heads, ff):
    h = layers.LayerNormalization(epsilon=1e-6)(x)
    x = x + FrameSelfAttention(heads)(h, frame_mask=mask)
    h = layers.LayerNormalization(epsilon=1e-6)(x)
    return x + layers.Dense(x.shape[-1])(layers.Dense(ff, activation="swish")(h))


def build_encoder(n_mels=80, dim=144, depth=4, heads=4, vocab=64):
    mel = keras.Input((None, n_mels))
    mask = keras.Input((None,), dtype="bool")
    x = layers.Conv1D(dim, 3, strides=2, padding="same", activation="relu")(mel)
    x = layers.Conv1D(dim, 3, strides=2, padding="same", activation="relu")(x)
    for _ in range(depth):
        x = encoder_block(x, mask, heads, 4 * dim)
    return keras.Model([mel, mask], layers.Dense(vocab)(x))
