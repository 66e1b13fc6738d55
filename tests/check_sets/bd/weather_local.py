"""Local temporal mixing of station series, NumPy inference code for an embedded logger.

We cannot have torch on the device, the weights come as a dict of arrays.
"""
import json

import numpy as np

HOURS_BACK = 4


def load(path):
    with open(path) as f:
        return {k: np.asarray(v, dtype=np.float32) for k, v in json.load(f).items()}


def standardise(x, mean, std):
    return (x - mean) / np.maximum(std, 1e-3)


def fill_gaps(x):
    """Forward fill of missing readings (NaN), zeros before the first reading."""
    x = x.copy()
    for c in range(x.shape[1]):
        last = 0.0
        for t in range(x.shape[0]):
            if np.isnan(x[t, c]):
                x[t, c] = last
            last = x[t, c]
    return x


def local_attention(x, w, n_head, window=HOURS_BACK):
    """Causal attention in a sliding window.

    x [T, C]. The hour t sees `window` hours in all: itself and the window - 1 hours
    before it (fewer at the start of the series). window=1 returns each hour's own value.
    """
    T, C = x.shape
    d = C // n_head
    q, k, v = ((x @ w[n] + w["b" + n]).reshape(T, n_head, d).swapaxes(0, 1) for n in ("q", "k", "v"))
    logits = q @ k.swapaxes(1, 2) / np.sqrt(d)

    t = np.arange(T)
    age = t[:, None] - t[None, :]
    visible = (age >= 0) & (age <= window)
    logits = np.where(visible, logits, -np.inf)

    logits -= logits.max(axis=-1, keepdims=True)
    p = np.exp(logits)
    p /= p.sum(axis=-1, keepdims=True)
    y = (p @ v).swapaxes(0, 1).reshape(T, C)
    return y @ w["o"] + w["bo"]


def layer_norm(x, g, b):
    mu = x.mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(((x - mu) ** 2).mean(-1, keepdims=True) + 1e-5) * g + b


def predict(series, w, n_head=2):
    """series [T, C] raw readings -> temperature forecast [T]."""
    x = standardise(fill_gaps(series), w["mean"], w["std"])
    x = x + local_attention(layer_norm(x, w["g1"], w["s1"]), w, n_head)
    h = np.maximum(layer_norm(x, w["g2"], w["s2"]) @ w["f1"], 0)
    x = x + h @ w["f2"]
    return x @ w["head"]


def random_weights(rng, c=8):
    w = {n: rng.normal(0, c ** -0.5, (c, c)) for n in "qkvo"}
    w.update({"b" + n: np.zeros(c) for n in "qkvo"})
    w.update(mean=np.zeros(c), std=np.ones(c), g1=np.ones(c), s1=np.zeros(c), g2=np.ones(c), s2=np.zeros(c))
    w.update(f1=rng.normal(0, .3, (c, 2 * c)), f2=rng.normal(0, .3, (2 * c, c)), head=rng.normal(0, .3, c))
    return w


if __name__ == "__main__":
    g = np.random.default_rng(0)
    print(predict(g.normal(size=(24, 8)), random_weights(g))[:3])
