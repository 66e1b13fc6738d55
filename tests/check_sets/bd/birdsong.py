"""Birdsong phrase model: numpy forward pass of a causal encoder with ALiBi.

Spectrogram frames are clustered to "syllables" beforehand; here we only score how
well a phrase continues.
"""
import numpy as np

MASKED = -100.0


def alibi_slopes(n_heads):
    """Geometric slopes of Press et al. 2022 for n_heads a power of two:
    2^(-8/n), 2^(-16/n), ..., 2^(-8)."""
    if n_heads & (n_heads - 1):
        raise ValueError("use a power of two")
    return np.array([2.0 ** (-8.0 * h / n_heads) for h in range(n_heads)])


def softmax(z):
    z = z - z.max(axis=-1, keepdims=True)
    e = np.exp(z)
    return e / e.sum(axis=-1, keepdims=True)


def onehot(syllables, n):
    out = np.zeros((len(syllables), n))
    out[np.arange(len(syllables)), syllables] = 1.0
    return out


def song_attention(x, wq, wk, wv, wo, n_heads):
    """x [T, C], weights [C, C]. Frame t sees frames 0..t and nothing later; nearer frames are favoured."""
    T, C = x.shape
    d = C // n_heads
    heads = lambda y: y.reshape(T, n_heads, d).transpose(1, 0, 2)
    q, k, v = heads(x @ wq), heads(x @ wk), heads(x @ wv)

    scores = np.matmul(q, k.transpose(0, 2, 1)) / np.sqrt(d)
    gap = np.arange(T)[:, None] - np.arange(T)[None, :]
    scores -= alibi_slopes(n_heads)[:, None, None] * np.maximum(gap, 0)
    scores = np.where(gap < 0, MASKED, scores)

    y = np.matmul(softmax(scores), v)
    return y.transpose(1, 0, 2).reshape(T, C) @ wo


class SongModel:
    def __init__(self, n_syllables, width=32, n_heads=4, layers=2, seed=0):
        r = np.random.default_rng(seed)
        n = lambda a, b: r.normal(0, a ** -0.5, (a, b))
        self.n, self.n_heads = n_syllables, n_heads
        self.emb = n(n_syllables, width)
        self.layers = [
            {"att": [n(width, width) for _ in range(4)], "up": n(width, 2 * width), "down": n(2 * width, width)}
            for _ in range(layers)
        ]
        self.head = n(width, n_syllables)

    @staticmethod
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) / (x.std(-1, keepdims=True) + 1e-5)

    def logits(self, syllables):
        x = onehot(syllables, self.n) @ self.emb
        for l in self.layers:
            x = x + song_attention(self.norm(x), *l["att"], self.n_heads)
            x = x + np.maximum(self.norm(x) @ l["up"], 0) @ l["down"]
        return self.norm(x) @ self.head

    def surprise(self, syllables):
        """Mean negative log probability of each next syllable, in nats."""
        p = softmax(self.logits(syllables[:-1]))
        return float(-np.log(p[np.arange(len(syllables) - 1), syllables[1:]]).mean())


if __name__ == "__main__":
    print(SongModel(12).surprise([1, 4, 4, 7, 2, 1, 4, 4, 7]))
