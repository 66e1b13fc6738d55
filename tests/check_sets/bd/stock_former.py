# Transformer encoder written from scratch, for a course on quantitative finance
# (returns of the last n days -> direction of the next day). Forward only.
import numpy as np

np.set_printoptions(precision=4, suppress=True)


def make_windows(prices, n):
    """log returns, windows of n days [samples, n, 1] and labels"""
    r = np.diff(np.log(prices))
    X = np.stack([r[i:i + n] for i in range(len(r) - n)])[..., None]
    y = (r[n:] > 0).astype(int)
    return X, y


def sinusoids(n, d):
    pos = np.arange(n)[:, None]
    div = 10000 ** (np.arange(0, d, 2) / d)
    pe = np.zeros((n, d))
    pe[:, 0::2] = np.sin(pos / div)
    pe[:, 1::2] = np.cos(pos / div)
    return pe


class MultiHeadAttention:
    """Scaled dot-product attention with several heads, numerically stable, batch first."""

    def __init__(self, d_model, num_heads, rng):
        assert d_model % num_heads == 0
        self.h = num_heads
        self.d = d_model // num_heads
        lim = np.sqrt(3.0 / d_model)
        self.Wq, self.Wk, self.Wv, self.Wo = (rng.uniform(-lim, lim, (d_model, d_model)) for _ in range(4))

    def split(self, x):
        # (batch, days, d_model) -> (batch, heads, days, d)
        b, t, _ = x.shape
        return x.reshape(b, t, self.h, self.d).transpose(0, 2, 1, 3)

    def softmax(self, z):
        e = np.exp(z)
        return e / e.sum(axis=-1, keepdims=True)

    def __call__(self, x):
        b, t, c = x.shape
        Q, K, V = self.split(x @ self.Wq), self.split(x @ self.Wk), self.split(x @ self.Wv)
        scores = Q @ K.transpose(0, 1, 3, 2)
        scores = scores / np.sqrt(K.shape[2])
        A = self.softmax(scores)
        heads = A @ V
        # put the heads side by side again
        out = heads.reshape(b, t, c)
        return out @ self.Wo, A


class EncoderLayer:
    def __init__(self, d_model, num_heads, d_ff, rng):
        self.mha = MultiHeadAttention(d_model, num_heads, rng)
        self.W1 = rng.normal(0, np.sqrt(2 / d_model), (d_model, d_ff))
        self.W2 = rng.normal(0, np.sqrt(2 / d_ff), (d_ff, d_model))

    @staticmethod
    def norm(x):
        return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-6)

    def __call__(self, x):
        a, _ = self.mha(x)
        x = self.norm(x + a)
        return self.norm(x + np.maximum(x @ self.W1, 0) @ self.W2)


class StockFormer:
    def __init__(self, d_model=16, num_heads=2, layers=2, seed=0):
        rng = np.random.default_rng(seed)
        self.inp = rng.normal(0, 1, (1, d_model))
        self.layers = [EncoderLayer(d_model, num_heads, 32, rng) for _ in range(layers)]
        self.out = rng.normal(0, 0.1, (d_model, 2))

    def __call__(self, X):
        x = X @ self.inp
        x = x + sinusoids(x.shape[1], x.shape[2])
        for l in self.layers:
            x = l(x)
        return x[:, -1] @ self.out


if __name__ == "__main__":
    p = 100 * np.exp(np.cumsum(np.random.default_rng(3).normal(0, 0.01, 60)))
    X, y = make_windows(p, 10)
    print((StockFormer()(X).argmax(1) == y).mean())
