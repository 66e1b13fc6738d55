"""Layers of Keras as its tutorials write them."""

from keras import layers, ops


class MyAttention(layers.Layer):
    def __init__(self, d_model, num_heads, **kw):
        super().__init__(**kw)
        self.num_heads = num_heads
        self.depth = d_model // num_heads
        self.d_model = d_model
        self.wq = layers.Dense(d_model)
        self.wk = layers.Dense(d_model)
        self.wv = layers.Dense(d_model)
        self.dense = layers.Dense(d_model)

    def split_heads(self, x, batch_size):
        x = ops.reshape(x, (batch_size, -1, self.num_heads, self.depth))
        return ops.transpose(x, (0, 2, 1, 3))

    def call(self, v, k, q, mask=None):
        b = ops.shape(q)[0]
        q = self.split_heads(self.wq(q), b)
        k = self.split_heads(self.wk(k), b)
        v = self.split_heads(self.wv(v), b)
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / ops.sqrt(ops.cast(self.depth, q.dtype))
        if mask is not None:
            logits += mask * -1e9
        w = ops.softmax(logits, axis=-1)
        o = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        o = ops.reshape(o, (b, -1, self.d_model))
        return self.dense(o), w


class Wrong(MyAttention):
    def call(self, v, k, q, mask=None):
        b = ops.shape(q)[0]
        q = self.split_heads(self.wq(q), b)
        k = self.split_heads(self.wk(k), b)
        v = self.split_heads(self.wv(v), b)
        logits = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / ops.sqrt(ops.cast(self.d_model, q.dtype))
        if mask is not None:
            logits += mask * -1e9
        w = ops.softmax(logits, axis=-1)
        o = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        o = ops.reshape(o, (b, -1, self.d_model))
        return self.dense(o), w


class SelfAttention(layers.Layer):
    def __init__(self, units=12):
        super().__init__()
        self.units = units

    def build(self, input_shape):
        d = input_shape[-1]
        self.wq = self.add_weight(shape=(d, self.units), initializer="glorot_uniform", name="wq")
        self.wk = self.add_weight(shape=(d, self.units), name="wk")
        self.wv = self.add_weight(shape=(d, self.units), name="wv")

    def call(self, x):
        q, k, v = (ops.matmul(x, w) for w in (self.wq, self.wk, self.wv))
        s = ops.matmul(q, ops.swapaxes(k, -1, -2)) / self.units**0.5
        return ops.matmul(ops.softmax(s), v)
