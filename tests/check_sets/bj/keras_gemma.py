"""Gemma-2-like decoder attention for Keras 3.

Order of operations, as in the reference release: scale the query by
`query_scale` (the constructor's value, not 1/sqrt(head_dim)), dot product,
soft cap, THEN the mask, then softmax in float32.
"""
import keras
from keras import layers, ops


@keras.saving.register_keras_serializable(package="gem")
class CappedAttention(layers.Layer):
    """Causal GQA with soft-capped logits.

    Arguments:
        num_q, num_kv: query heads / key-value heads (num_q % num_kv == 0);
            query head h belongs to kv head h // (num_q // num_kv).
        head_dim: size of a head.
        query_scale: multiplies the queries.
        soft_cap: logits become soft_cap * tanh(logits / soft_cap); None = off.

    Call: x [B, T, C]; valid: bool [B, T] (True = real token) or None;
          cache: None or (k, v), each [B, P, num_kv, head_dim].
    Returns y [B, T, C], and the new (k, v) when `return_cache=True`.
    """

    def __init__(self, num_q, num_kv, head_dim, query_scale, soft_cap=50.0, **kw):
        super().__init__(**kw)
        self.num_q, self.num_kv, self.head_dim = num_q, num_kv, head_dim
        self.query_scale, self.soft_cap = query_scale, soft_cap

    def build(self, x_shape, *_):
        c = x_shape[-1]
        self.wq = self.add_weight(shape=(c, self.num_kv, self.num_q // self.num_kv, self.head_dim),
                                  initializer="random_normal", name="q")
        self.wk = self.add_weight(shape=(c, self.num_kv, self.head_dim), initializer="random_normal", name="k")
        self.wv = self.add_weight(shape=(c, self.num_kv, self.head_dim), initializer="random_normal", name="v")
        self.wo = self.add_weight(shape=(self.num_q * self.head_dim, c), initializer="random_normal", name="o")

    def call(self, x, valid=None, cache=None, return_cache=False):
        b, t = ops.shape(x)[0], ops.shape(x)[1]
        q = ops.einsum("btc,cngd->btngd", x, self.wq) * self.query_scale
        k = ops.einsum("btc,cnd->btnd", x, self.wk)
        v = ops.einsum("btc,cnd->btnd", x, self.wv)
        if cache is not None:
            k = ops.concatenate([cache[0], k], axis=1)
            v = ops.concatenate([cache[1], v], axis=1)
        s = ops.shape(k)[1]
        logits = ops.cast(ops.einsum("btngd,bsnd->bngts", q, k), "float32")
        if self.soft_cap is not None:
            logits = ops.tanh(logits / self.soft_cap) * self.soft_cap
        rows = ops.arange(t)[:, None] + (s - t)
        allowed = ops.broadcast_to(ops.arange(s)[None] <= rows, (b, t, s))
        if valid is not None:
            if cache is not None:
                valid = ops.concatenate([ops.ones((b, s - t), dtype="bool"), valid], axis=1)
            allowed = ops.logical_and(allowed, valid[:, None, :])
        logits = ops.where(allowed[:, None, None], logits, -2.3819763e38)
        probs = ops.cast(ops.softmax(logits, axis=-1), v.dtype)
        y = ops.einsum("bngts,bsnd->btngd", probs, v)
        y = ops.matmul(ops.reshape(y, (b, t, self.num_q * self.head_dim)), self.wo)
        return (y, (k, v)) if return_cache else y

    def get_config(self):
        keys = ("num_q", "num_kv", "head_dim", "query_scale", "soft_cap")
        return {**super().get_config(), **{k: getattr(self, k) for k in keys}}


class GemmaBlock(layers.Layer):
    def __init__(self, width, **kw):
        super().__init__(**kw)
        self.pre, self.post = layers.LayerNormalization(), layers.LayerNormalization()
        self.att = CappedAttention(4, 2, 8, query_scale=0.25)
        self.gate, self.up = layers.Dense(2 * width, activation="gelu"), layers.Dense(2 * width)
        self.down = layers.Dense(width)

    def call(self, x, valid=None):
        x = x + self.post(self.att(self.pre(x), valid))
        return x + self.down(self.gate(x) * self.up(x))
