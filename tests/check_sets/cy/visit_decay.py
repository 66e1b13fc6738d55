import keras
from keras import ops


class VisitDecay(keras.layers.Layer):
    """Time-decayed attention over hospital visits.

    inputs: [visits (B, N, F), days (B, N) time of each visit, non-decreasing]
    Visit i attends to the visits j <= i in the list. The logit loses rate * (days_i - days_j),
    rate > 0 learned per head, so that old visits fade.
    """

    def __init__(self, units, heads=2, **kw):
        super().__init__(**kw)
        self.units, self.heads = units, heads
        self.d = units // heads

    def build(self, shapes):
        f = shapes[0][-1]
        mk = lambda n, s: self.add_weight(name=n, shape=s, initializer="glorot_uniform")
        self.wq = mk("wq", (f, self.units))
        self.wk = mk("wk", (f, self.units))
        self.wv = mk("wv", (f, self.units))
        self.wo = mk("wo", (self.units, self.units))
        self.raw = self.add_weight(name="raw", shape=(self.heads,), initializer="zeros")

    def call(self, inputs):
        x, days = inputs
        n = ops.shape(x)[1]
        split = lambda t: ops.transpose(ops.reshape(t, (-1, n, self.heads, self.d)), (0, 2, 1, 3))
        q, k, v = split(x @ self.wq), split(x @ self.wk), split(x @ self.wv)
        logit = ops.matmul(q, ops.transpose(k, (0, 1, 3, 2))) / self.d ** 0.5
        gap = days[:, :, None] - days[:, None, :]
        rate = ops.softplus(self.raw)[None, :, None, None]
        logit = logit - rate * gap[:, None]
        i = ops.arange(n)
        logit = ops.where(i[None, :] <= i[:, None], logit, -1e30)
        w = ops.softmax(logit, axis=-1)
        y = ops.transpose(ops.matmul(w, v), (0, 2, 1, 3))
        return ops.matmul(ops.reshape(y, (-1, n, self.units)), self.wo)
