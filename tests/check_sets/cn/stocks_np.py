"""Cross-asset attention in NumPy, for the backtest (no torch on the trading host).

For every day a set of assets (rows) exchange information: each asset asks all the
assets with a query and takes the weighted average of their values.
"""
import numpy as np


def softmax(x, axis):
    x = x - x.max(axis=axis, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=axis, keepdims=True)


class AssetAttention:
    """Single head.  weights[t, i, j]: how much asset i listens to asset j on day t."""

    def __init__(self, n_features=6, d_k=8, d_v=8, seed=0):
        rng = np.random.default_rng(seed)
        s = 1.0 / np.sqrt(n_features)
        self.Wq = rng.normal(0, s, (n_features, d_k))
        self.Wk = rng.normal(0, s, (n_features, d_k))
        self.Wv = rng.normal(0, s, (n_features, d_v))
        self.d_k = d_k

    def __call__(self, x):
        """x [days, assets, n_features] -> (mixed [days, assets, d_v], weights)"""
        q = x @ self.Wq
        k = x @ self.Wk
        v = x @ self.Wv
        scores = np.matmul(q, np.swapaxes(k, 1, 2)) / np.sqrt(self.d_k)
        weights = softmax(scores, axis=1)
        return np.matmul(weights, v), weights


def zscore(panel):
    """panel [days, assets, features], per day over the assets"""
    mu = panel.mean(axis=1, keepdims=True)
    sd = panel.std(axis=1, keepdims=True)
    return (panel - mu) / (sd + 1e-8)


def signal(panel, layer, readout):
    """Long/short signal per asset and day, dollar neutral."""
    mixed, _ = layer(zscore(panel))
    s = mixed @ readout
    s = s - s.mean(axis=1, keepdims=True)
    return s / (np.abs(s).sum(axis=1, keepdims=True) + 1e-12)


if __name__ == "__main__":
    r = np.random.default_rng(7)
    panel = r.normal(size=(3, 10, 6))
    print(signal(panel, AssetAttention(), r.normal(size=8)).round(3))
