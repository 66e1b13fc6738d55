"""BERT encoder layer in plain numpy, to run a converted checkpoint without a framework."""
import numpy as np
from math import erf


def gelu(x):
    return 0.5 * x * (1 + np.vectorize(erf)(x / np.sqrt(2)))


def layer_norm(x, g, b, eps=1e-12):
    mu, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return g * (x - mu) / np.sqrt(var + eps) + b


def softmax(x):
    x = np.exp(x - x.max(axis=-1, keepdims=True))
    return x / x.sum(axis=-1, keepdims=True)


def random_weights(d=16, ff=32, seed=0):
    r = np.random.default_rng(seed)
    w = {n: r.normal(0, 0.25, (d, d)) for n in ("query", "key", "value", "dense")}
    w.update({n + "_b": r.normal(0, 0.1, d) for n in ("query", "key", "value", "dense")})
    w.update(ln1_g=np.ones(d), ln1_b=np.zeros(d), ln2_g=np.ones(d), ln2_b=np.zeros(d))
    w.update(up=r.normal(0, 0.25, (d, ff)), up_b=np.zeros(ff), down=r.normal(0, 0.25, (ff, d)), down_b=np.zeros(d))
    return w


def bert_layer(w, hidden, attention_mask, num_heads=4):
    """hidden (B, L, D); attention_mask (B, L), 1 for word pieces and 0 for [PAD]."""
    B, L, D = hidden.shape
    d = D // num_heads

    def project(name):
        return (hidden @ w[name] + w[name + "_b"]).reshape(B, L, num_heads, d).transpose(0, 2, 1, 3)

    q, k, v = project("query"), project("key"), project("value")
    extended = attention_mask[:, None, None, :].astype(hidden.dtype)
    scores = q @ k.transpose(0, 1, 3, 2) / np.sqrt(d)
    probs = softmax(scores + extended)
    ctx = (probs @ v).transpose(0, 2, 1, 3).reshape(B, L, D)
    x = layer_norm(hidden + ctx @ w["dense"] + w["dense_b"], w["ln1_g"], w["ln1_b"])
    y = gelu(x @ w["up"] + w["up_b"]) @ w["down"] + w["down_b"]
    return layer_norm(x + y, w["ln2_g"], w["ln2_b"])
