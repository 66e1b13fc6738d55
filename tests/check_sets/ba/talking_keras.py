import os

os.environ.setdefault("KERAS_BACKEND", "torch")

import keras
from keras import ops


@keras.saving.register_keras_serializable("storyteller")
class TalkingHeads(keras.layers.Layer):
    """Talking-heads self attention (Shazeer et al. 2020), causal, for the story generator.

    Logits are mixed across heads before the softmax, weights are mixed across
    heads after it; so the final weights of one head need not sum to one.
    The causal mask comes after the first mix, where it cannot be mixed away.
    """

    def __init__(self, heads, key_dim, rate=0.0, **kw):
        super().__init__(**kw)
        self.heads, self.key_dim, self.rate = heads, key_dim, rate
        self.drop = keras.layers.Dropout(rate)

    def build(self, shape):
        c = shape[-1]
        init = "glorot_uniform"
        self.wq = self.add_weight(shape=(c, self.heads, self.key_dim), initializer=init, name="wq")
        self.wk = self.add_weight(shape=(c, self.heads, self.key_dim), initializer=init, name="wk")
        self.wv = self.add_weight(shape=(c, self.heads, self.key_dim), initializer=init, name="wv")
        self.wo = self.add_weight(shape=(self.heads, self.key_dim, c), initializer=init, name="wo")
        self.pre = self.add_weight(shape=(self.heads, self.heads), initializer="orthogonal", name="pre")
        self.post = self.add_weight(shape=(self.heads, self.heads), initializer="orthogonal", name="post")

    def call(self, x, training=None):
        q = ops.einsum("btc,chd->bthd", x, self.wq)
        k = ops.einsum("btc,chd->bthd", x, self.wk)
        v = ops.einsum("btc,chd->bthd", x, self.wv)
        s = ops.einsum("bqhd,bkhd->bhqk", q, k) / ops.sqrt(ops.cast(self.key_dim, x.dtype))
        s = ops.einsum("bhqk,hg->bgqk", s, self.pre)
        n = ops.shape(x)[1]
        idx = ops.arange(n)
        ok = idx[None, :] <= idx[:, None]
        s = ops.where(ok, s, ops.cast(-1e9, s.dtype))
        p = ops.softmax(s, axis=-1)
        p = ops.einsum("bgqk,gh->bhqk", p, self.post)
        p = self.drop(p, training=training)
        y = ops.einsum("bhqk,bkhd->bqhd", p, v)
        return ops.einsum("bqhd,hdc->bqc", y, self.wo)

    def get_config(self):
        return {**super().get_config(), "heads": self.heads, "key_dim": self.key_dim, "rate": self.rate}


def build_story_model(vocab=200, length=32, width=32, heads=4):
    ids = keras.Input((length,), dtype="int32")
    h = keras.layers.Embedding(vocab, width)(ids)
    h = h + TalkingHeads(heads, width // heads, 0.1)(keras.layers.LayerNormalization()(h))
    return keras.Model(ids, keras.layers.Dense(vocab)(h))
