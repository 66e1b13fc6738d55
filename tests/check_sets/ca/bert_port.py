"""
BERT encoder layer in plain numpy, for the ranking box that has no torch.

Weights are a flat dict with the Hugging Face names (``...attention.self.query.weight``
is [out, in], as nn.Linear stores it).  Only inference, dropout is left out.
"""
import numpy as np
from math import erf

_erf = np.vectorize(erf, otypes=[float])


def gelu(x):
    return 0.5 * x * (1.0 + _erf(x / np.sqrt(2.0)))


def linear(w, name, x):
    return x @ w[name + ".weight"].T + w[name + ".bias"]


def layer_norm(w, name, x, eps=1e-12):
    mu = x.mean(-1, keepdims=True)
    var = ((x - mu) ** 2).mean(-1, keepdims=True)
    return (x - mu) / np.sqrt(var + eps) * w[name + ".weight"] + w[name + ".bias"]


def softmax(x):
    x = x - x.max(axis=-1, keepdims=True)
    e = np.exp(x)
    return e / e.sum(axis=-1, keepdims=True)


def split_heads(x, n_heads):
    b, t, d = x.shape
    return np.swapaxes(x.reshape(b, t, n_heads, d // n_heads), 1, 2)


def bert_layer(w, hidden, attention_mask, n_heads=4, prefix="encoder.layer.0"):
    """hidden [B, T, D]; attention_mask [B, T] with 1 = token, 0 = padding."""
    b, t, d = hidden.shape
    p = prefix + ".attention.self."
    q = split_heads(linear(w, p + "query", hidden), n_heads)
    k = split_heads(linear(w, p + "key", hidden), n_heads)
    v = split_heads(linear(w, p + "value", hidden), n_heads)

    scores = np.matmul(q, k.transpose(0, 1, 3, 2)) / np.sqrt(d // n_heads)
    extended = (1.0 - attention_mask[:, None, None, :]) * np.finfo(scores.dtype).min
    probs = softmax(scores + extended)
    context = np.swapaxes(np.matmul(probs, v), 1, 2).reshape(b, t, d)

    a = prefix + ".attention.output"
    hidden = layer_norm(w, a + ".LayerNorm", linear(w, a + ".dense", context) + hidden)
    inner = gelu(linear(w, prefix + ".intermediate.dense", hidden))
    out = linear(w, prefix + ".output.dense", inner)
    return layer_norm(w, prefix + ".output.LayerNorm", out + hidden)


def random_weights(d=16, inner=32, prefix="encoder.layer.0", seed=0):
    rng = np.random.default_rng(seed)
    w = {}

    def add(name, o, i):
        w[f"{prefix}.{name}.weight"] = rng.normal(0, i ** -0.5, (o, i))
        w[f"{prefix}.{name}.bias"] = rng.normal(0, 0.1, o)

    for n in ("query", "key", "value"):
        add("attention.self." + n, d, d)
    add("attention.output.dense", d, d)
    add("intermediate.dense", inner, d)
    add("output.dense", d, inner)
    for n in ("attention.output.LayerNorm", "output.LayerNorm"):
        w[f"{prefix}.{n}.weight"] = np.ones(d)
        w[f"{prefix}.{n}.bias"] = np.zeros(d)
    return w
