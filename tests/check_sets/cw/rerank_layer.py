import os

os.environ.setdefault("KERAS_BACKEND", "torch")
import keras
from keras import layers, ops


class QueryDocCross(layers.Layer):
    """Query tokens read a candidate document (re-ranking model).

    call(query, doc, is_pad)
      query  (B, Lq, C)
      doc    (B, Ld, C)
      is_pad (B, Ld) bool, True where the document is padding. Padding must not
             influence the result; every document has at least one token.
    """

    def __init__(self, dim, heads=2, **kw):
        super().__init__(**kw)
        self.dim, self.heads = dim, heads
        self.q = layers.Dense(dim)
        self.k = layers.Dense(dim)
        self.v = layers.Dense(dim)
        self.o = layers.Dense(dim)

    def build(self, query_shape, doc_shape, is_pad_shape=None):
        self.q.build(query_shape)
        self.k.build(doc_shape)
        self.v.build(doc_shape)
        self.o.build((None, None, self.dim))

    def _cut(self, t):
        b, n = ops.shape(t)[0], ops.shape(t)[1]
        t = ops.reshape(t, (b, n, self.heads, self.dim // self.heads))
        return ops.transpose(t, (0, 2, 1, 3))

    def call(self, query, doc, is_pad):
        q, k, v = self._cut(self.q(query)), self._cut(self.k(doc)), self._cut(self.v(doc))
        s = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) * (self.dim // self.heads) ** -0.5
        s = ops.where(is_pad[:, None, None, :], s, -1e30)
        y = ops.transpose(ops.matmul(ops.softmax(s, axis=-1), v), (0, 2, 1, 3))
        return self.o(ops.reshape(y, ops.shape(query)[:2] + (self.dim,)))
