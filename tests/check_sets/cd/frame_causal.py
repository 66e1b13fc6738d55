"""Frame-causal attention for a video token predictor (Keras 3).

A clip is flattened to frames * patches tokens.  A token sees all tokens of its
own frame and of earlier frames, none of later ones.
"""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="video")
class FrameCausalAttention(layers.Layer):
    """Multi-head self-attention on [batch, frames * patches, dim]."""

    def __init__(self, num_heads=2, patches_per_frame=4, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.patches_per_frame = patches_per_frame

    def build(self, input_shape):
        dim = input_shape[-1]
        self.head_dim = dim // self.num_heads
        self.to_qkv = layers.Dense(3 * dim, use_bias=False, name="to_qkv")
        self.to_out = layers.Dense(dim, name="to_out")
        self.to_qkv.build(input_shape)
        self.to_out.build(input_shape)
        self.built = True

    def frame_mask(self, length):
        frame = ops.arange(length) // self.patches_per_frame
        return ops.expand_dims(frame, 1) >= ops.expand_dims(frame, 0)

    def call(self, x):
        batch, length, dim = ops.shape(x)
        qkv = ops.reshape(self.to_qkv(x), (batch, length, 3, self.num_heads, self.head_dim))
        q, k, v = [ops.transpose(qkv[:, :, i], (0, 2, 1, 3)) for i in range(3)]

        scores = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.head_dim ** 0.5
        mask = ops.cast(self.frame_mask(length), scores.dtype)
        scores = scores + mask
        weights = ops.softmax(scores, axis=-1)

        out = ops.transpose(ops.matmul(weights, v), (0, 2, 1, 3))
        return self.to_out(ops.reshape(out, (batch, length, dim)))

    def get_config(self):
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "patches_per_frame": self.patches_per_frame,
        }


def build_predictor(frames=3, patches=4, dim=16, codes=64, depth=2, num_heads=2):
    tokens = keras.Input((frames * patches,), dtype="int32")
    x = layers.Embedding(codes, dim)(tokens)
    for _ in range(depth):
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        x = layers.Add()([x, FrameCausalAttention(num_heads, patches)(y)])
        y = layers.LayerNormalization(epsilon=1e-6)(x)
        y = layers.Dense(2 * dim, activation="gelu")(y)
        x = layers.Add()([x, layers.Dense(dim)(y)])
    return keras.Model(tokens, layers.Dense(codes)(x))
