"""Small NumPy forecaster: embed a multivariate series, one attention layer, linear read-out."""
import numpy as np


def sinusoid_table(n_steps, d_model):
    """
    PE(pos, 2i)   = sin(pos / 10000^(2i / d_model))
    PE(pos, 2i+1) = cos(pos / 10000^(2i / d_model))
    """
    pe = np.zeros((n_steps, d_model))
    for pos in range(n_steps):
        for i in range(0, d_model, 2):
            pe[pos, i] = np.sin(pos / (10000 ** ((2 * i) / d_model)))
            pe[pos, i + 1] = np.cos(pos / (10000 ** ((2 * i) / d_model)))
    return pe


def _softmax(s):
    s = s - s.max(axis=-1, keepdims=True)
    e = np.exp(s)
    return e / e.sum(axis=-1, keepdims=True)


class Forecaster:
    def __init__(self, n_vars, d_model=32, n_heads=4, horizon=6, seed=7):
        rng = np.random.RandomState(seed)
        g = lambda a, b: rng.randn(a, b) / np.sqrt(a)
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.d_model = d_model
        self.w_in = g(n_vars, d_model)
        self.wq, self.wk, self.wv, self.wo = (g(d_model, d_model) for _ in range(4))
        self.w_out = g(d_model, horizon * n_vars)
        self.horizon, self.n_vars = horizon, n_vars

    def _heads(self, x):
        b, t, _ = x.shape
        return x.reshape(b, t, self.n_heads, self.d_head).transpose(0, 2, 1, 3)

    def encode(self, series):
        """series: (batch, time, vars), already standardised per variable"""
        b, t, _ = series.shape
        x = series @ self.w_in
        x = x + sinusoid_table(t, self.d_model)
        q, k, v = self._heads(x @ self.wq), self._heads(x @ self.wk), self._heads(x @ self.wv)
        s = q @ k.swapaxes(-1, -2) / np.sqrt(self.d_head)
        ctx = _softmax(s) @ v
        ctx = ctx.transpose(0, 2, 1, 3).reshape(b, t, self.d_model)
        return x + ctx @ self.wo

    def __call__(self, series):
        h = self.encode(series)
        y = h[:, -1] @ self.w_out
        return y.reshape(-1, self.horizon, self.n_vars)


def standardise(series, eps=1e-8):
    mu = series.mean(axis=1, keepdims=True)
    sd = series.std(axis=1, keepdims=True)
    return (series - mu) / (sd + eps), mu, sd


def forecast(series, model):
    z, mu, sd = standardise(series)
    return model(z) * sd + mu
