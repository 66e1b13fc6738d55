"""Keras 3 layers for kiln-camera pictures: glaze defects from 3 x 3 crops.

Talking-heads self-attention (heads are mixed by a small matrix before the softmax and by
another one after it) with layer-scale, and a class-attention read-out.
"""
import keras
from keras import layers, ops


class TalkingHeadsAttention(layers.Layer):
    """(batch, n, dim) -> (batch, n, dim)

    The mixing after the softmax is free (it is not a stochastic matrix), so the mixed
    maps that ``return_maps=True`` gives need not sum to one.
    """

    def __init__(self, dim, heads=4, drop=0.0, **kw):
        super().__init__(**kw)
        if dim % heads:
            raise ValueError(f"dim {dim} is not a multiple of heads {heads}")
        self.dim, self.heads, self.rate = dim, heads, drop
        self.qkv = layers.Dense(3 * dim, use_bias=True, name="qkv")
        self.talk_before = layers.Dense(heads, name="talk_before")
        self.talk_after = layers.Dense(heads, name="talk_after")
        self.proj = layers.Dense(dim, name="proj")
        self.dropout = layers.Dropout(drop)

    def build(self, shape):
        self.qkv.build(shape)
        self.talk_before.build((None, None, None, self.heads))
        self.talk_after.build((None, None, None, self.heads))
        self.proj.build((*shape[:-1], self.dim))
        self.built = True

    def call(self, x, training=False, return_maps=False):
        b, n = ops.shape(x)[0], ops.shape(x)[1]
        hd = self.dim // self.heads
        qkv = ops.reshape(self.qkv(x), (b, n, 3, self.heads, hd))
        q, k, v = ops.unstack(ops.transpose(qkv, (2, 0, 3, 1, 4)), 3, axis=0)
        s = ops.matmul(q * hd ** -0.5, ops.transpose(k, (0, 1, 3, 2)))      # b h n n
        s = self.talk_before(ops.transpose(s, (0, 2, 3, 1)))                # b n n h
        a = ops.softmax(s, axis=2)
        a = self.talk_after(a)
        a = ops.transpose(self.dropout(a, training=training), (0, 3, 1, 2))
        y = ops.reshape(ops.transpose(ops.matmul(a, v), (0, 2, 1, 3)), (b, n, self.dim))
        y = self.proj(y)
        return (y, a) if return_maps else y

    def get_config(self):
        return {**super().get_config(), "dim": self.dim, "heads": self.heads, "drop": self.rate}


class LayerScaleBlock(layers.Layer):
    def __init__(self, dim, heads, gamma=1e-2, **kw):
        super().__init__(**kw)
        self.n1, self.n2 = layers.LayerNormalization(epsilon=1e-6), layers.LayerNormalization(epsilon=1e-6)
        self.att = TalkingHeadsAttention(dim, heads)
        self.mlp = keras.Sequential([layers.Dense(4 * dim, activation="gelu"), layers.Dense(dim)])
        self.dim, self.gamma = dim, gamma

    def build(self, shape):
        init = keras.initializers.Constant(self.gamma)
        self.g1 = self.add_weight(shape=(self.dim,), initializer=init, name="g1")
        self.g2 = self.add_weight(shape=(self.dim,), initializer=init, name="g2")
        for l in (self.n1, self.n2, self.att, self.mlp):
            l.build(shape)
        self.built = True

    def call(self, x, training=False):
        x = x + self.g1 * self.att(self.n1(x), training=training)
        return x + self.g2 * self.mlp(self.n2(x))


def kiln_model(side=24, crop=3, dim=32, heads=4, depth=2, defects=5):
    img = keras.Input((side, side, 3))
    x = layers.Conv2D(dim, crop, strides=crop)(img)
    x = layers.Reshape((-1, dim))(x)
    for i in range(depth):
        x = LayerScaleBlock(dim, heads, name=f"block{i}")(x)
    x = layers.GlobalAveragePooling1D()(layers.LayerNormalization()(x))
    return keras.Model(img, layers.Dense(defects, activation="sigmoid")(x))


if __name__ == "__main__":
    m = kiln_model()
    m.summary(line_length=90)
