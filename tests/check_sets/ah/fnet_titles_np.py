"""FNet encoder (Lee-Thorp et al. 2021) with numpy: token mixing by a 2D Fourier transform.

weights: {"encoder/layer_0/mixing_layer_norm/scale": ..., "encoder/layer_0/feed_forward/intermediate/kernel": ...}
"""
import numpy as np


def gelu(x):
    return 0.5 * x * (1.0 + np.tanh(0.7978845608 * (x + 0.044715 * x ** 3)))


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def layer_norm(x, scale, bias, eps=1e-12):
    mean = x.mean(-1, keepdims=True)
    var = x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(var + eps) * scale + bias


class FNetEncoderBlock:
    def __init__(self, weights, index):
        self.w = weights
        self.prefix = f"encoder/layer_{index}/"

    def _p(self, name):
        return self.w[self.prefix + name]

    def mix(self, x):
        """x [batch, seq, hidden]; real part of the transform along hidden and sequence"""
        return np.fft.fft(np.fft.fft(x, axis=-1), axis=-2).real

    def feed_forward(self, x):
        h = gelu(x @ self._p("feed_forward/intermediate/kernel") + self._p("feed_forward/intermediate/bias"))
        return h @ self._p("feed_forward/output/kernel") + self._p("feed_forward/output/bias")

    def __call__(self, x):
        x = layer_norm(x + self.mix(x), self._p("mixing_layer_norm/scale"), self._p("mixing_layer_norm/bias"))
        return layer_norm(x + self.feed_forward(x), self._p("output_layer_norm/scale"), self._p("output_layer_norm/bias"))


class FNetClassifier:
    def __init__(self, weights, layers):
        self.w = weights
        self.blocks = [FNetEncoderBlock(weights, i) for i in range(layers)]

    def __call__(self, ids, types=None):
        types = np.zeros_like(ids) if types is None else types
        x = self.w["word"][ids] + self.w["type"][types] + self.w["position"][: ids.shape[1]]
        x = layer_norm(x, self.w["emb_scale"], self.w["emb_bias"])
        for b in self.blocks:
            x = b(x)
        pooled = np.tanh(x[:, 0] @ self.w["pooler"])
        return softmax(pooled @ self.w["classifier"])


def make_weights(vocab=100, hidden=16, layers=2, classes=3, max_len=32, seed=0):
    r = np.random.default_rng(seed)
    n = lambda *s: r.standard_normal(s) * 0.1
    w = {"word": n(vocab, hidden), "type": n(2, hidden), "position": n(max_len, hidden), "emb_scale": np.ones(hidden),
         "emb_bias": np.zeros(hidden), "pooler": n(hidden, hidden), "classifier": n(hidden, classes)}
    for i in range(layers):
        p = f"encoder/layer_{i}/"
        w[p + "feed_forward/intermediate/kernel"], w[p + "feed_forward/intermediate/bias"] = n(hidden, 4 * hidden), n(4 * hidden)
        w[p + "feed_forward/output/kernel"], w[p + "feed_forward/output/bias"] = n(4 * hidden, hidden), n(hidden)
        for k in ("mixing_layer_norm", "output_layer_norm"):
            w[p + k + "/scale"], w[p + k + "/bias"] = np.ones(hidden), np.zeros(hidden)
    return w


if __name__ == "__main__":
    net = FNetClassifier(make_weights(), 2)
    print(net(np.array([[4, 8, 15, 16, 23, 42]])))
