"""Encoder layer of a small en-de Transformer, numpy forward for the CPU demo.

Post-norm layer of Vaswani et al. (2017): scaled dot-product attention with several heads,
then the two-layer feed-forward.  Weights come from an .npz export of the trainer.
"""
import numpy as np


def softmax(z, axis):
    z = z - z.max(axis=axis, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=axis, keepdims=True)


def norm(x, gain, bias):
    mu = x.mean(-1, keepdims=True)
    sd = x.std(-1, keepdims=True)
    return gain * (x - mu) / (sd + 1e-6) + bias


class EncoderLayer:
    def __init__(self, weights, n_heads):
        self.w = weights
        self.n_heads = n_heads

    def to_heads(self, x):
        b, t, d = x.shape
        return x.reshape(b, t, self.n_heads, d // self.n_heads).transpose(0, 2, 1, 3)

    def attention(self, x, lengths):
        w = self.w
        q = self.to_heads(x @ w["Wq"] + w["bq"])
        k = self.to_heads(x @ w["Wk"] + w["bk"])
        v = self.to_heads(x @ w["Wv"] + w["bv"])
        logits = np.matmul(q, k.swapaxes(-1, -2))
        inside = np.arange(x.shape[1]) < np.asarray(lengths)[:, None]
        logits = np.where(inside[:, None, None, :], logits, -1e9)
        heads = np.matmul(softmax(logits, axis=-1), v)
        b, h, t, dh = heads.shape
        return heads.transpose(0, 2, 1, 3).reshape(b, t, h * dh) @ w["Wo"] + w["bo"]

    def __call__(self, x, lengths):
        w = self.w
        x = norm(x + self.attention(x, lengths), w["g1"], w["b1"])
        hidden = np.maximum(x @ w["W1"] + w["c1"], 0)
        return norm(x + hidden @ w["W2"] + w["c2"], w["g2"], w["b2"])


def fresh_weights(d, d_ff, seed=0):
    rng = np.random.default_rng(seed)
    w = {}
    for name in ("Wq", "Wk", "Wv", "Wo"):
        w[name] = rng.normal(0, d ** -0.5, (d, d))
    w["W1"] = rng.normal(0, d ** -0.5, (d, d_ff))
    w["W2"] = rng.normal(0, d_ff ** -0.5, (d_ff, d))
    for name in ("bq", "bk", "bv", "bo", "c2", "b1", "b2"):
        w[name] = np.zeros(d)
    w["c1"] = np.zeros(d_ff)
    w["g1"], w["g2"] = np.ones(d), np.ones(d)
    return w


if __name__ == "__main__":
    layer = EncoderLayer(fresh_weights(32, 64), n_heads=4)
    print(layer(np.random.randn(2, 6, 32), [6, 4]).shape)
