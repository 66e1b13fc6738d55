"""Temperature nowcasting at 300 alpine stations: batched ALiBi attention in numpy.

The model was trained elsewhere; here we only need a dependable forward pass on the
logger boxes (no torch there).  Weights: see `load`.
"""
import numpy as np


def load(path):
    with np.load(path) as z:
        return {k: z[k].astype(np.float64) for k in z.files}


def random_weights(n_in, d, rng):
    w = {k: rng.normal(size=(d, d)) / np.sqrt(d) for k in ("q", "k", "v", "o")}
    w["in"] = rng.normal(size=(n_in, d)) / np.sqrt(n_in)
    w["out"] = rng.normal(size=(d, 1)) / np.sqrt(d)
    return w


def alibi_slopes(n_heads):
    """Head slopes of Press et al. (2022) for a power of two of heads: the geometric
    sequence that starts at 2^(-8/n) and has that value as its ratio; for n = 8 that
    is 1/2, 1/4, ... 1/256."""
    if n_heads & (n_heads - 1):
        raise ValueError("n_heads must be a power of two")
    h = np.arange(n_heads)
    return 2.0 ** (-8.0 * h / n_heads)


def softmax_(x):
    """In place on a fresh array, last axis."""
    x -= x.max(axis=-1, keepdims=True)
    np.exp(x, out=x)
    x /= x.sum(axis=-1, keepdims=True)
    return x


def causal_alibi(x, w, n_heads, gap=None):
    """
    x   : (stations, hours, d)
    gap : (stations, hours) bool, True where the station did not report; such hours are
          not read (but an hour may always read itself)
    """
    s, t, d = x.shape
    dh = d // n_heads

    def heads(name):
        return (x @ w[name]).reshape(s, t, n_heads, dh).transpose(0, 2, 1, 3)

    q, k, v = heads("q"), heads("k"), heads("v")
    lag = np.arange(t)[:, None] - np.arange(t)[None, :]         # hours back, i - j
    logit = q @ k.transpose(0, 1, 3, 2) / np.sqrt(dh)
    logit -= alibi_slopes(n_heads)[:, None, None] * lag
    hide = np.broadcast_to(lag < 0, (s, t, t)).copy()
    if gap is not None:
        hide |= gap[:, None, :] & (lag != 0)
    logit[np.broadcast_to(hide[:, None], logit.shape)] = -np.inf
    y = softmax_(logit) @ v
    return y.transpose(0, 2, 1, 3).reshape(s, t, d) @ w["o"]


def nowcast(obs, w, n_heads=4):
    """obs (stations, hours, n_in), NaN where missing -> (stations, hours)"""
    gap = np.isnan(obs).any(axis=-1)
    x = np.nan_to_num(obs) @ w["in"]
    x = x + causal_alibi(x, w, n_heads, gap)
    return (x @ w["out"])[..., 0]


def skill(pred, truth, persistence):
    ok = ~np.isnan(truth)
    mse = lambda a: np.mean((a[ok] - truth[ok]) ** 2)
    return 1.0 - mse(pred) / mse(persistence)
